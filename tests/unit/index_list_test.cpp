// SPDX-License-Identifier: BSD-3-Clause
// Index lists: find the holders of each index, and reject invalid lists.
#include "datamover/index_list.hpp"

#include <map>

#include "layout_oracle.hpp"

namespace datamover {
namespace {

using layout_oracle::expect_error;
using layout_oracle::Random;
using Numbers = std::vector<std::int64_t>;

TEST(IndexList, HoldersAreThoseWhoseListsHoldTheIndex) {
    for (std::int64_t i = 0; i < layout_oracle::cases(100); ++i) {
        Random random(layout_oracle::seed_of(i));
        const Point shape = layout_oracle::random_shape(random, 2);
        const Layout layout = layout_oracle::random_index_list(random, shape, random.integer(1, 7));
        const IndexList& lists = *layout.index_list();
        for (std::int64_t index = 0; index < shape.product(); ++index) {
            std::vector<std::pair<std::int64_t, std::int64_t>> expected, found;
            for (std::int64_t rank = 0; rank < lists.nprocs(); ++rank) {
                const auto list = lists.indices_of(rank);
                for (std::size_t k = 0; k < list.size(); ++k)
                    if (list[k] == index) expected.emplace_back(rank, static_cast<std::int64_t>(k));
            }
            for (const auto& holder : lists.holders(index)) {
                EXPECT_EQ(holder.index, index);
                found.emplace_back(holder.rank, holder.position);
            }
            ASSERT_EQ(found, expected);
        }
    }
}

TEST(IndexList, FindsHoldersOfIndicesThatLieAnyhow) {
    constexpr std::int64_t huge = std::int64_t{1} << 62;
    for (std::int64_t i = 0; i < layout_oracle::cases(60); ++i) {
        Random random(layout_oracle::seed_of(i));
        const std::int64_t nprocs = random.integer(1, 4);
        // Clusters, far apart, of indices close together.
        Numbers offsets(1, 0), indices;
        std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> expected;
        for (std::int64_t rank = 0; rank < nprocs; ++rank) {
            for (std::int64_t c = random.integer(0, 4); c > 0; --c) {
                const std::int64_t n = random.integer(1, 1500), spread = 1 << random.integer(0, 12);
                const std::int64_t first = random.integer(0, huge >> random.integer(0, 60));
                for (std::int64_t k = 0; k < n; ++k)
                    indices.push_back(std::min(first + random.integer(0, spread), huge - 1));
            }
            for (std::int64_t at = offsets.back(); at < std::ssize(indices); ++at)
                expected[indices[static_cast<std::size_t>(at)]].emplace_back(rank,
                                                                             at - offsets.back());
            offsets.push_back(std::ssize(indices));
        }
        const IndexList lists(Point{huge}, offsets, indices);
        std::size_t all = 0;
        for (const auto& [index, places] : expected) {
            std::vector<std::pair<std::int64_t, std::int64_t>> found;
            for (const auto& h : lists.holders(index)) found.emplace_back(h.rank, h.position);
            EXPECT_EQ(found, places);
            for (const std::int64_t near : {index - 1, index + 1})
                if (near >= 0 && near < huge) {
                    EXPECT_EQ(lists.holders(near).empty(), !expected.contains(near));
                }
            EXPECT_EQ(std::ssize(lists.holders_between(0, index)),
                      static_cast<std::ptrdiff_t>(all));
            all += places.size();
        }
        EXPECT_EQ(lists.holders_between(0, huge).size(), indices.size());
        EXPECT_TRUE(lists.holders_between(huge / 2, huge / 4).empty());
    }
}

TEST(IndexList, KeepsTheOrderOfEachList) {
    const IndexList lists(Point{3, 4}, Numbers{0, 3, 3, 5}, Numbers{11, 0, 5, 7, 0});
    EXPECT_EQ(lists.nprocs(), 3);
    EXPECT_TRUE(lists.indices_of(1).empty());
    const auto first = lists.indices_of(0), last = lists.indices_of(2);
    EXPECT_EQ(Numbers(first.begin(), first.end()), (Numbers{11, 0, 5}));
    EXPECT_EQ(Numbers(last.begin(), last.end()), (Numbers{7, 0}));
    EXPECT_TRUE(lists.holders(1).empty());
    EXPECT_EQ(Layout(lists).block_extents(0), Point{3});
    EXPECT_EQ(Layout(lists).domain(), Region::from_shape(Point{3, 4}));
}

TEST(IndexList, RefusesListsThatMakeNoSense) {
    const auto make = [](const Numbers& offsets, const Numbers& indices) {
        IndexList(Point{10}, offsets, indices);
    };
    expect_error(ErrorCode::mismatch, [&] { make({0, 2}, {1, 2, 3}); });
    expect_error(ErrorCode::mismatch, [&] { make({0, 2, 1, 3}, {1, 2, 3}); });
    expect_error(ErrorCode::mismatch, [&] { make({1, 3}, {1, 2, 3}); });
    expect_error(ErrorCode::mismatch, [&] { make({0}, {}); });
    expect_error(ErrorCode::out_of_range, [&] { make({0, 2}, {1, 10}); });
    expect_error(ErrorCode::out_of_range, [&] { make({0, 2}, {-1, 1}); });
    expect_error(ErrorCode::out_of_range,
                 [&] { IndexList(Point{10}, Numbers{0, 1}, Numbers{1}).indices_of(1); });
}

TEST(IndexList, SameListsAreEqual) {
    const IndexList a(Point{6}, Numbers{0, 2, 3}, Numbers{1, 0, 5});
    EXPECT_EQ(a, IndexList(Point{6}, Numbers{0, 2, 3}, Numbers{1, 0, 5}));
    EXPECT_FALSE(a == IndexList(Point{6}, Numbers{0, 2, 3}, Numbers{0, 1, 5}));
    EXPECT_FALSE(a == IndexList(Point{2, 3}, Numbers{0, 2, 3}, Numbers{1, 0, 5}));
}

}  // namespace
}  // namespace datamover

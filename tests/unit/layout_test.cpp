// SPDX-License-Identifier: BSD-3-Clause
// Layouts of any kind: the queries that all kinds have in common.
#include "datamover/layout.hpp"

#include <set>

#include "layout_oracle.hpp"

namespace datamover {
namespace {

using layout_oracle::expect_error;
using layout_oracle::Kind;
using layout_oracle::Random;

class LayoutOf : public ::testing::TestWithParam<Kind> {};

TEST_P(LayoutOf, BlocksAndOwnersAgreeWithItsElements) {
    for (std::int64_t i = 0; i < layout_oracle::cases(100); ++i) {
        Random random(layout_oracle::seed_of(i));
        const Point shape =
            layout_oracle::random_shape(random, static_cast<int>(random.integer(1, 3)));
        const std::int64_t nprocs = random.integer(1, 7);
        const Layout layout = layout_oracle::random_layout(random, GetParam(), shape, nprocs);
        EXPECT_TRUE(layout.valid());
        EXPECT_EQ(layout.dims(), shape.dims());
        EXPECT_EQ(layout.nprocs(), nprocs);
        EXPECT_EQ(layout.domain(), Region::from_shape(shape));
        std::map<std::int64_t, std::int64_t> of_block, of_rank;
        for (const auto& e : layout_oracle::elements_of(layout)) {
            ++of_block[e.block];
            ++of_rank[layout.owner(e.block)];
        }
        std::set<std::int64_t> seen;
        for (std::int64_t rank = 0; rank < nprocs; ++rank) {
            EXPECT_EQ(layout.local_elems(rank), of_rank[rank]);
            for (const std::int64_t block : layout.blocks_of(rank)) {
                EXPECT_EQ(layout.owner(block), rank);
                EXPECT_EQ(layout.block_extents(block).product(), of_block[block]);
                EXPECT_TRUE(seen.insert(block).second);
            }
        }
        EXPECT_EQ(static_cast<std::int64_t>(seen.size()), layout.num_blocks());
    }
}

TEST_P(LayoutOf, RefusesBlocksAndRanksThatAreNotThere) {
    Random random(1);
    const Layout layout = layout_oracle::random_layout(random, GetParam(), Point{6, 6}, 4);
    for (const std::int64_t rank : {std::int64_t{-1}, std::int64_t{4}}) {
        expect_error(ErrorCode::out_of_range, [&] { layout.blocks_of(rank); });
        expect_error(ErrorCode::out_of_range, [&] { layout.local_elems(rank); });
    }
    for (const std::int64_t block : {std::int64_t{-1}, layout.num_blocks()})
        expect_error(ErrorCode::out_of_range, [&] { layout.owner(block); });
}

TEST_P(LayoutOf, EqualsACopyAndOneMadeAlike) {
    Random a(7), b(7), c(8);
    const Layout one = layout_oracle::random_layout(a, GetParam(), Point{9, 9}, 4);
    const Layout same = layout_oracle::random_layout(b, GetParam(), Point{9, 9}, 4);
    const Layout other = layout_oracle::random_layout(c, GetParam(), Point{9, 9}, 4);
    EXPECT_EQ(one, Layout(one));
    EXPECT_EQ(one, same);
    EXPECT_FALSE(one == other);
    EXPECT_FALSE(one == Layout{});
}

INSTANTIATE_TEST_SUITE_P(AllKinds, LayoutOf,
                         ::testing::Values(Kind::block_cyclic, Kind::floor_plan, Kind::index_list,
                                           Kind::flat_cyclic),
                         [](const auto& info) { return kind_name(info.param); });

TEST(Layout, TellsItsKindToPeople) {
    EXPECT_EQ(Layout(BlockCyclic(Point{8, 8}, "(block, *)", 2)).describe(),
              "block-cyclic (block, *) of (8, 8) on grid (2, 1)");
    EXPECT_FALSE(Layout{}.valid());
}

}  // namespace
}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Block-cyclic layouts: elements are distributed as HPF defines, and invalid arguments are
// rejected.
#include "datamover/block_cyclic.hpp"

#include <set>

#include "layout_oracle.hpp"

namespace datamover {
namespace {

using layout_oracle::cases;
using layout_oracle::Coordinates;
using layout_oracle::expect_error;
using layout_oracle::Random;
using layout_oracle::seed_of;
using Grid = std::vector<std::int64_t>;

BlockCyclicOptions on_grid(const Grid& grid) {
    BlockCyclicOptions options;
    options.grid = grid;
    return options;
}

std::vector<std::int64_t> counted(std::int64_t n) {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(n));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

TEST(BlockCyclic, DealsEveryElementAsHpfDefines) {
    for (std::int64_t i = 0; i < cases(300); ++i) {
        Random random(seed_of(i));
        const Point shape =
            layout_oracle::random_shape(random, static_cast<int>(random.integer(1, 3)));
        const std::int64_t nprocs = random.integer(1, 12);
        const Layout layout = layout_oracle::random_block_cyclic(random, shape, nprocs);
        const BlockCyclic& dealt = *layout.block_cyclic();
        std::map<std::int64_t, std::int64_t> held;
        for (const auto& e : layout_oracle::elements_of(layout)) {
            const std::int64_t rank = dealt.owner(e.block);
            const std::int64_t first = dealt.owner(e.block % dealt.grid().product());
            ASSERT_EQ(dealt.owner_of(Point(e.global)), first) << layout.describe();
            ASSERT_EQ(dealt.local_index(Point(e.global)), Point(e.local)) << layout.describe();
            ASSERT_EQ(dealt.global_index(rank, Point(e.local)), Point(e.global));
            const auto indices = dealt.global_indices(rank);
            for (std::size_t d = 0; d < indices.size(); ++d)
                ASSERT_EQ(indices[d].at(static_cast<std::size_t>(e.local[d])), e.global[d]);
            ++held[rank];
        }
        for (std::int64_t rank = 0; rank < nprocs; ++rank) {
            EXPECT_EQ(dealt.local_shape(rank).product(), held[rank]);
            for (int d = 0; d < dealt.dims(); ++d)
                EXPECT_EQ(dealt.global_indices(rank)[static_cast<std::size_t>(d)].size(),
                          static_cast<std::size_t>(dealt.local_shape(rank)[d]));
            EXPECT_EQ(layout.local_elems(rank), held[rank]);
        }
    }
}

TEST(BlockCyclic, BlocksAreNumberedInGridOrder) {
    for (const bool column_major : {false, true}) {
        BlockCyclicOptions options = on_grid({2, 3, 4});
        options.column_major_grid = column_major;
        const BlockCyclic layout(Point{8, 9, 8}, "(block, block, block)", 24, options);
        std::int64_t block = 0;
        for (std::int64_t i = 0; i < 24; ++i) {
            const Point expected =
                column_major ? Point{i % 2, i / 2 % 3, i / 6} : Point{i / 12, i / 4 % 3, i % 4};
            EXPECT_EQ(layout.grid_coordinates(block), expected);
            EXPECT_EQ(layout.block_at(expected), block++);
        }
    }
}

TEST(BlockCyclic, BlockIsTheCeilingOfExtentOverProcesses) {
    const BlockCyclic layout(Point{10}, "(block)", 4, on_grid({4}));
    EXPECT_EQ(layout.block(), Point{3});
    const std::int64_t extents[] = {3, 3, 3, 1};
    for (std::int64_t rank = 0; rank < 4; ++rank)
        EXPECT_EQ(layout.local_shape(rank), Point{extents[rank]});
    EXPECT_EQ(BlockCyclic(Point{5}, "(block)", 4, on_grid({4})).local_shape(3), Point{0});
    EXPECT_EQ(BlockCyclic(Point{10}, "(block(5))", 4, on_grid({4})).local_shape(2), Point{0});
}

TEST(BlockCyclic, FirstProcessHoldsIndexZero) {
    BlockCyclicOptions options = on_grid({2, 3});
    options.first_process = {1, 2};
    const BlockCyclic layout(Point{8, 9}, "(cyclic(2), cyclic)", 6, options);
    EXPECT_EQ(layout.owner_of(Point{0, 0}), 5);
    EXPECT_EQ(layout.owner_of(Point{2, 1}), 0);
    EXPECT_EQ(layout.local_index(Point{4, 3}), (Point{2, 1}));
}

TEST(BlockCyclic, RanksMapGridPositionsToProcesses) {
    BlockCyclicOptions options = on_grid({2, 2});
    options.ranks = {7, 0, 5, 2};
    const BlockCyclic layout(Point{4, 4}, "(block, block)", 9, options);
    for (std::int64_t block = 0; block < 4; ++block) {
        const std::int64_t rank = options.ranks[static_cast<std::size_t>(block)];
        EXPECT_EQ(layout.owner(block), rank);
        EXPECT_EQ(layout.block_of(rank), block);
    }
    for (const std::int64_t rank : {1, 3, 4, 6, 8}) {
        EXPECT_EQ(layout.block_of(rank), -1);
        EXPECT_EQ(layout.local_shape(rank), (Point{0, 0}));
        EXPECT_TRUE(Layout(layout).blocks_of(rank).empty());
    }
}

TEST(BlockCyclic, ChosenGridUsesAllProcesses) {
    for (const std::int64_t nprocs : counted(65)) {
        if (nprocs == 0) continue;
        const BlockCyclic layout(Point{64, 1000, 7}, "(block, cyclic(4), *)", nprocs);
        EXPECT_EQ(layout.grid().product(), nprocs);
        EXPECT_EQ(layout.grid()[2], 1);
    }
    EXPECT_EQ(BlockCyclic(Point{100, 100}, "(block, block)", 16).grid(), (Point{4, 4}));
    EXPECT_EQ(BlockCyclic(Point{5, 5}, "(*, *)", 3).grid(), (Point{1, 1}));
}

TEST(BlockCyclic, ReadsDistributionsInHpfNotation) {
    using Axis = AxisDistribution;
    const auto axes = parse_distribution(" ( BLOCK, cyclic(64) ,*, block( 3 ),CYCLIC )");
    const std::pair<Axis::Kind, std::int64_t> expected[] = {{Axis::Kind::block, 0},
                                                            {Axis::Kind::cyclic, 64},
                                                            {Axis::Kind::collapsed, 0},
                                                            {Axis::Kind::block, 3},
                                                            {Axis::Kind::cyclic, 0}};
    ASSERT_EQ(axes.size(), std::size(expected));
    for (std::size_t d = 0; d < axes.size(); ++d) {
        EXPECT_EQ(axes[d].kind, expected[d].first);
        EXPECT_EQ(axes[d].block, expected[d].second);
    }
    EXPECT_EQ(parse_distribution("block,*").size(), 2u);
}

TEST(BlockCyclic, CyclicInAllDimensionsIsSaidByNumbers) {
    const BlockCyclic layout = BlockCyclic::cyclic({7, 5, 4}, {2, 3, 9}, {3, 2, 1});
    for (std::int64_t i = 0; i < 7; ++i)
        for (std::int64_t j = 0; j < 5; ++j)
            EXPECT_EQ(layout.owner_of({i, j, 3}), i / 2 % 3 * 2 + j / 3 % 2);
    EXPECT_EQ(layout.nprocs(), 6);
    expect_error(ErrorCode::mismatch, [] { BlockCyclic::cyclic({7, 5}, {2}, {3, 2}); });
    expect_error(ErrorCode::mismatch, [] { BlockCyclic::cyclic({7, 5}, {2, 2}, {3}); });
    expect_error(ErrorCode::invalid_argument, [] { BlockCyclic::cyclic({7, 5}, {2, 0}, {3, 2}); });
    expect_error(ErrorCode::invalid_argument, [] { BlockCyclic::cyclic({7, 5}, {2, 2}, {3, 0}); });
}

TEST(BlockCyclic, RefusesWordsThatAreNoDistribution) {
    for (const char* text :
         {"", "()", "(blok)", "(block, )", "(block(0))", "(cyclic(-1))", "(cyclic(2)", "(cyclic())",
          "(cyclic(x))", "(cyclic(2)))", "(*(3))", "(cyclic(1.5))", "((block))x",
          "(cyclic(99999999999999999999))", "(block) (block)"}) {
        SCOPED_TRACE(text);
        expect_error(ErrorCode::invalid_argument, [&] { parse_distribution(text); });
    }
}

TEST(BlockCyclic, RefusesWhatMakesNoSense) {
    const auto invalid = [](const Point& shape, const std::string& distribution,
                            std::int64_t nprocs, const BlockCyclicOptions& options = {}) {
        SCOPED_TRACE(distribution + " of " + shape.to_string());
        expect_error(ErrorCode::invalid_argument,
                     [&] { BlockCyclic(shape, distribution, nprocs, options); });
    };
    invalid(Point{4, -1}, "(block, block)", 2);
    invalid(Point{-4}, "(block)", 2);
    invalid(Point{}, "()", 2);
    invalid(Point{4, 4}, "(block)", 2);
    invalid(Point{4}, "(block)", 0);
    invalid(Point{4, 4}, "(block, *)", 4, on_grid({2, 2}));
    invalid(Point{4, 4}, "(block, block)", 4, on_grid({2}));
    invalid(Point{4, 4}, "(block, block)", 4, on_grid({0, 2}));
    invalid(Point{4, 4}, "(block, block)", 5, on_grid({2, 3}));
    invalid(Point{10}, "(block(2))", 4, on_grid({4}));
    BlockCyclicOptions options = on_grid({2});
    options.first_process = {2};
    invalid(Point{4}, "(block)", 2, options);
    options = on_grid({2});
    options.ranks = {1, 1};
    invalid(Point{4}, "(block)", 2, options);
    options.ranks = {1};
    invalid(Point{4}, "(block)", 2, options);
    options.ranks = {0, 2};
    expect_error(ErrorCode::out_of_range, [&] { BlockCyclic(Point{4}, "(block)", 2, options); });
}

TEST(BlockCyclic, RefusesIndicesAndRanksThatAreNotThere) {
    const BlockCyclic layout(Point{4, 6}, "(block, *)", 3, on_grid({2, 1}));
    for (const Point& index : {Point{4, 0}, Point{0, -1}, Point{1}}) {
        expect_error(ErrorCode::out_of_range, [&] { layout.owner_of(index); });
        expect_error(ErrorCode::out_of_range, [&] { layout.local_index(index); });
    }
    expect_error(ErrorCode::out_of_range, [&] { layout.owner(2); });
    expect_error(ErrorCode::out_of_range, [&] { layout.global_index(0, Point{2, 0}); });
    expect_error(ErrorCode::out_of_range, [&] { layout.global_index(2, Point{0, 0}); });
}

TEST(BlockCyclic, IsConstantInMemoryHoweverManyElements) {
    const std::int64_t n = std::int64_t{1} << 31;
    const BlockCyclic layout(Point{n, n - 1}, "(cyclic(3), block)", 1'000'000);
    const Point last{n - 1, n - 2};
    EXPECT_EQ(layout.global_index(layout.owner_of(last), layout.local_index(last)), last);
    expect_error(ErrorCode::out_of_range,
                 [&] { BlockCyclic(Point{n, n, n}, "(block, block, block)", 4); });
}

}  // namespace
}  // namespace datamover

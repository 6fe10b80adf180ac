// SPDX-License-Identifier: BSD-3-Clause
// Views of blocks: each element is at the address that the memory layout gives.
#include "datamover/grid_view.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "datamover/floor_plan.hpp"
#include "datamover/memory_layout.hpp"

namespace datamover {
namespace {

/// A process's memory of two blocks with ghosts, each element holding its own position.
struct Held {
    Layout layout;
    MemoryLayout memory;
    std::vector<std::int64_t> elements;

    explicit Held(ElementOrder order)
        : layout(
              FloorPlan({Region({0, 0, 0}, {4, 3, 2}), Region({4, 0, 0}, {6, 5, 1})}, {0, 0}, 1)),
          memory(dense_memory(layout, 0, 8, order, {1, 0, 2}, {2, 1, 0})),
          elements(static_cast<std::size_t>(memory.end_bytes / 8)) {
        std::iota(elements.begin(), elements.end(), 0);
    }
    GridView<std::int64_t> grid(const BlockMemory& block) {
        Point strides = block.strides_bytes;
        for (int d = 0; d < 3; ++d) strides[d] /= 8;
        return {elements.data() + block.offset_bytes / 8, layout.block_extents(block.block),
                strides, block.valid};
    }
};

TEST(GridView, FindsEveryElementByItsIndices) {
    for (const auto order : {ElementOrder::row_major, ElementOrder::column_major}) {
        Held held(order);
        for (const BlockMemory& block : held.memory.blocks) {
            const auto grid = held.grid(block);
            EXPECT_EQ(grid.dims(), 3);
            EXPECT_EQ(grid.shape(), held.layout.block_extents(block.block));
            EXPECT_EQ(grid.extent(1), grid.shape()[1]);
            EXPECT_EQ(grid.valid(), block.valid);
            std::int64_t seen = 0;
            block.valid.for_each([&](const Point& x) {
                std::int64_t bytes = block.offset_bytes;
                for (int d = 0; d < 3; ++d) bytes += x[d] * block.strides_bytes[d];
                EXPECT_EQ(grid(x[0], x[1], x[2]), bytes / 8);
                EXPECT_EQ(&grid[x], &grid(x[0], x[1], x[2]));
                ++seen;
            });
            EXPECT_EQ(seen, block.valid.shape().product());
        }
    }
}

TEST(GridView, IsWrittenThroughAndReadOnlyWhereItsElementsAreConst) {
    Held held(ElementOrder::row_major);
    const auto grid = held.grid(held.memory.blocks.front());
    grid(0, 1, 1) = -7;
    const GridView<const std::int64_t> read = grid;
    EXPECT_EQ(read(0, 1, 1), -7);
    EXPECT_EQ(*(read.data() + read.stride(1) + read.stride(2)), -7);
    static_assert(!std::is_assignable_v<decltype(read(0, 0, 0)), std::int64_t>);
    static_assert(!std::is_convertible_v<GridView<const std::int64_t>, GridView<std::int64_t>>);
}

#ifdef __cpp_lib_mdspan
TEST(GridView, BecomesAnMdspanOfTheBlockWithoutGhosts) {
    Held held(ElementOrder::column_major);
    const auto grid = held.grid(held.memory.blocks.back());
    const GridView<std::int64_t>::Span<3> span = grid;
    Region::from_shape(grid.shape()).for_each([&](const Point& x) {
        EXPECT_EQ(&span[x[0], x[1], x[2]], &grid[x]);
    });
}
#endif

}  // namespace
}  // namespace datamover

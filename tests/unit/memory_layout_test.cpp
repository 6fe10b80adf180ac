// SPDX-License-Identifier: BSD-3-Clause
// Memory layouts: every element of a process's blocks, ghosts included, has its own address.
#include "datamover/memory_layout.hpp"

#include <set>

#include "layout_oracle.hpp"

namespace datamover {
namespace {

using layout_oracle::expect_error;
using layout_oracle::Random;

std::int64_t address(const BlockMemory& m, const Point& local) {
    std::int64_t bytes = m.offset_bytes;
    for (int d = 0; d < local.dims(); ++d) bytes += local[d] * m.strides_bytes[d];
    return bytes;
}

TEST(MemoryLayout, ElementsAndGhostsFillTheirBlockDensely) {
    for (std::int64_t i = 0; i < layout_oracle::cases(200); ++i) {
        Random random(layout_oracle::seed_of(i));
        const int dims = static_cast<int>(random.integer(1, 3));
        const Point shape = layout_oracle::random_shape(random, dims);
        const auto kind =
            random.chance(50) ? layout_oracle::Kind::block_cyclic : layout_oracle::Kind::floor_plan;
        const Layout layout =
            layout_oracle::random_layout(random, kind, shape, random.integer(1, 5));
        const Point lower = random.point(dims, 0, 2), upper = random.point(dims, 0, 2);
        const std::int64_t elem_bytes = random.integer(1, 24);
        const auto order = random.chance(50) ? ElementOrder::row_major : ElementOrder::column_major;
        const std::int64_t rank = random.integer(0, layout.nprocs() - 1);
        const MemoryLayout memory = dense_memory(layout, rank, elem_bytes, order, lower, upper);
        ASSERT_EQ(memory.blocks.size(), layout.blocks_of(rank).size());
        std::int64_t end = 0;
        for (const BlockMemory& m : memory.blocks) {
            const Point extents = layout.block_extents(m.block);
            if (Region::from_shape(extents).empty()) continue;
            EXPECT_EQ(m.valid, Region(-lower, extents + upper));
            const std::int64_t start = address(m, m.valid.lo());
            EXPECT_GE(start, end) << "blocks overlap";
            EXPECT_EQ(start % 64, 0);
            std::set<std::int64_t> places;
            m.valid.for_each([&](const Point& p) { places.insert(address(m, p) - start); });
            ASSERT_EQ(static_cast<std::int64_t>(places.size()), m.valid.size());
            EXPECT_EQ(*places.begin(), 0);
            EXPECT_EQ(*places.rbegin(), (m.valid.size() - 1) * elem_bytes);
            const int fastest = order == ElementOrder::row_major ? dims - 1 : 0;
            EXPECT_EQ(m.strides_bytes[fastest], elem_bytes);
            end = start + m.valid.size() * elem_bytes;
            EXPECT_LE(end, memory.end_bytes);
        }
    }
}

TEST(MemoryLayout, FindsTheBlocksThatAProcessHolds) {
    const Layout tiles = FloorPlan::tiles(Region(Point{0}, Point{10}), Point{2}, 2, "cyclic");
    const MemoryLayout memory = dense_memory(tiles, 1, 8);
    EXPECT_EQ(memory.find(0), nullptr);
    ASSERT_NE(memory.find(3), nullptr);
    EXPECT_EQ(memory.find(3)->block, 3);
    EXPECT_EQ(memory.find(5), nullptr);
}

TEST(MemoryLayout, AProcessWithoutElementsTakesNoMemory) {
    BlockCyclicOptions options;
    options.grid = std::vector<std::int64_t>{4};
    const Layout layout = BlockCyclic(Point{5}, "(block)", 6, options);
    EXPECT_EQ(dense_memory(layout, 3, 8).end_bytes, 0);
    EXPECT_EQ(dense_memory(layout, 3, 8, ElementOrder::row_major, Point{2}, Point{2}).end_bytes, 0);
    EXPECT_TRUE(dense_memory(layout, 5, 8).blocks.empty());
}

TEST(MemoryLayout, RefusesWhatMakesNoSense) {
    const Layout layout = BlockCyclic(Point{5, 5}, "(block, *)", 2);
    const auto row_major = ElementOrder::row_major;
    expect_error(ErrorCode::invalid_argument, [&] { dense_memory(layout, 0, 0); });
    expect_error(ErrorCode::invalid_argument,
                 [&] { dense_memory(layout, 0, 8, row_major, Point{-1, 0}, Point{0, 0}); });
    expect_error(ErrorCode::invalid_argument,
                 [&] { dense_memory(layout, 0, 8, row_major, Point{1}, Point{1}); });
    expect_error(ErrorCode::out_of_range, [&] { dense_memory(layout, 2, 8); });
    expect_error(ErrorCode::out_of_range, [&] { dense_memory(layout, -1, 8); });
    const std::int64_t n = std::int64_t{1} << 31;
    const Layout huge = BlockCyclic(Point{n, n - 1}, "(*, *)", 1);
    expect_error(ErrorCode::out_of_range, [&] { dense_memory(huge, 0, 8); });
}

}  // namespace
}  // namespace datamover

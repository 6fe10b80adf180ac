// SPDX-License-Identifier: BSD-3-Clause
// Descriptors and layouts agree, by ScaLAPACK's own formulas (NUMROC, INDXG2P, INDXG2L).
#include "datamover/scalapack_descriptor.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>

#include "datamover/error.hpp"

namespace datamover {
namespace {

using Entries = std::array<int, 9>;

ErrorCode code_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& e) {
        return e.code();
    }
    return ErrorCode{};
}

/// The coordinate of the process that holds a 0-based index, as the Users' Guide defines it.
int holder(int index, int block, int first, int processes) {
    return (first + index / block) % processes;
}

/// Its 0-based place there.
int place(int index, int block, int processes) {
    return index / (block * processes) * block + index % block;
}

TEST(ScalapackDescriptor, LayoutAndMemoryFollowTheFormulas) {
    std::mt19937 random(7);
    const auto draw = [&](int lo, int hi) {
        return std::uniform_int_distribution<int>(lo, hi)(random);
    };
    for (int round = 0; round < 100; ++round) {
        const int p = draw(1, 4), q = draw(1, 4), m = draw(1, 20), n = draw(1, 20);
        const int mb = draw(1, 22), nb = draw(1, 8), rsrc = draw(0, p - 1), csrc = draw(0, q - 1);
        const int lld = draw(20, 25);
        const Entries entries{1, 5, m, n, mb, nb, rsrc, csrc, lld};
        const auto descriptor = ScalapackDescriptor::from_entries(entries);
        EXPECT_EQ(descriptor.to_entries(5), entries);
        const ProcessGrid grid{p, q, round % 2 == 1, {}};
        const BlockCyclic layout = descriptor.layout(grid, 17);
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < n; ++j) {
                const int row = holder(i, mb, rsrc, p), column = holder(j, nb, csrc, q);
                const int rank = grid.column_major ? row + column * p : row * q + column;
                ASSERT_EQ(layout.owner_of({i, j}), rank);
                const MemoryLayout memory = descriptor.memory(layout, rank, 8);
                ASSERT_EQ(memory.blocks.size(), 1u);
                const Point local = layout.local_index({i, j});
                const Point strides = memory.blocks[0].strides_bytes;
                const std::int64_t address = local[0] * strides[0] + local[1] * strides[1];
                ASSERT_EQ(address, 8 * (place(i, mb, p) + std::int64_t{place(j, nb, q)} * lld));
                ASSERT_LE(address + 8, memory.end_bytes);
            }
        EXPECT_TRUE(descriptor.memory(layout, 16, 8).blocks.empty());
        const auto again = ScalapackDescriptor::of(layout, 0, lld).layout(grid, 16);
        for (int i = 0; i < m; ++i)
            ASSERT_EQ(again.owner_of({i, n - 1}), layout.owner_of({i, n - 1}));
    }
}

TEST(ScalapackDescriptor, LeadingDimensionIsAtLeastTheLocalRows) {
    const BlockCyclic layout({10, 4}, "(block, *)", 4, {});
    EXPECT_EQ(ScalapackDescriptor::of(layout, 0).to_entries(3),
              (Entries{1, 3, 10, 4, 3, 4, 0, 0, 3}));
    EXPECT_EQ(ScalapackDescriptor::of(layout, 3).lld, 1);
    EXPECT_EQ(ScalapackDescriptor::of(layout, 0, 9).lld, 9);
}

TEST(ScalapackDescriptor, NonsenseIsRefused) {
    const Entries good{1, 0, 10, 10, 2, 2, 0, 0, 10};
    const auto with = [&](std::size_t i, int value) {
        Entries e = good;
        e[i] = value;
        return e;
    };
    const auto read = [](const Entries& e) {
        return code_of([&] { ScalapackDescriptor::from_entries(e); });
    };
    EXPECT_EQ(read(good), ErrorCode{});
    EXPECT_EQ(read(with(0, 501)), ErrorCode::unsupported);
    EXPECT_EQ(read(with(2, -1)), ErrorCode::invalid_argument);
    EXPECT_EQ(read(with(3, -1)), ErrorCode::invalid_argument);
    EXPECT_EQ(read(with(4, 0)), ErrorCode::invalid_argument);
    EXPECT_EQ(read(with(5, 0)), ErrorCode::invalid_argument);
    EXPECT_EQ(read(with(6, -1)), ErrorCode::invalid_argument);
    EXPECT_EQ(read(with(7, -1)), ErrorCode::invalid_argument);
    const ProcessGrid grid{2, 2, false, {}};
    const auto place = [&](const Entries& e) {
        return code_of([&] {
            const auto d = ScalapackDescriptor::from_entries(e);
            d.memory(d.layout(grid, 4), 0, 8);
        });
    };
    EXPECT_EQ(place(good), ErrorCode{});
    EXPECT_EQ(place(with(6, 2)), ErrorCode::invalid_argument);
    EXPECT_EQ(place(with(7, 2)), ErrorCode::invalid_argument);
    EXPECT_EQ(place(with(8, 5)), ErrorCode::invalid_argument);  // process 0 holds 6 rows
    EXPECT_EQ(place(with(8, 6)), ErrorCode{});
    // No rows need no distance between columns; ScaLAPACK takes such descriptors too.
    BlockCyclicOptions rows;
    rows.grid = {2, 1};
    const BlockCyclic few({2, 4}, "(cyclic(2), cyclic(2))", 2, rows);
    const auto of_few = [&](int lld) {
        return code_of([&] { ScalapackDescriptor{2, 4, 2, 2, 0, 0, lld}.memory(few, 1, 8); });
    };
    EXPECT_EQ(of_few(0), ErrorCode{});
    EXPECT_EQ(of_few(-1), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of([] { ScalapackDescriptor::of(BlockCyclic({8}, "(block)", 2), 0); }),
              ErrorCode::invalid_argument);
    EXPECT_EQ(code_of([] {
                  const BlockCyclic large({std::int64_t{1} << 40, 2}, "(cyclic(4), *)", 2);
                  ScalapackDescriptor::of(large, 0).to_entries(0);
              }),
              ErrorCode::out_of_range);
}

}  // namespace
}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// std::mdspan of a block: contains the block's elements, in any memory order. test_mdspan.py
// compiles and runs this program; the exit code is the number of errors.
#include <cstdint>
#include <cstdio>
#include <mdspan>
#include <span>
#include <vector>

#include "datamover/grid_view.hpp"

using datamover::GridView, datamover::Point, datamover::Region;

namespace {

int wrong = 0;

void expect(bool holds, const char* what) {
    if (holds) return;
    ++wrong;
    std::printf("%s\n", what);
}

/// Sums by the span alone: an algorithm that knows nothing of this library.
template <class Span>
std::int64_t sum(Span span) {
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < span.extent(0); ++i)
        for (std::int64_t j = 0; j < span.extent(1); ++j)
            for (std::int64_t k = 0; k < span.extent(2); ++k) total += span[i, j, k];
    return total;
}

/// A block of 3 x 4 x 5 with ghosts of 1, 2 and 3 around it, at `strides`.
void check(const Point& strides) {
    const Point shape{3, 4, 5}, ghosts{1, 2, 3};
    std::vector<std::int64_t> memory(static_cast<std::size_t>(5 * 8 * 11), -1000);
    std::int64_t* const origin =
        memory.data() + ghosts[0] * strides[0] + ghosts[1] * strides[1] + ghosts[2] * strides[2];
    const GridView<std::int64_t> grid(origin, shape, strides,
                                      Region(Point{-1, -2, -3}, Point{4, 6, 8}));
    const GridView<std::int64_t>::Span<3> span = grid;
    std::int64_t right = 0;
    for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t j = 0; j < 4; ++j)
            for (std::int64_t k = 0; k < 5; ++k) {
                grid(i, j, k) = 100 * i + 10 * j + k;
                right += 100 * i + 10 * j + k;
                expect(&span[i, j, k] == &grid(i, j, k), "the address of an element");
            }
    for (int d = 0; d < 3; ++d) {
        expect(span.extent(static_cast<std::size_t>(d)) == shape[d], "an extent");
        expect(span.stride(static_cast<std::size_t>(d)) == strides[d], "a stride");
    }
    expect(sum(span) == right, "a sum");
    const GridView<const std::int64_t> read_only = grid;
    const std::mdspan<const std::int64_t, std::dextents<std::int64_t, 3>, std::layout_stride> seen =
        read_only;
    expect(sum(seen) == right, "a sum of what is only read");
    const std::mdspan<std::int64_t, std::extents<std::int64_t, 3, std::dynamic_extent, 5>,
                      std::layout_stride>
        fixed = grid;
    expect(sum(fixed) == right, "a sum with extents that the compiler knows");
    span[2, 3, 4] = 7;
    expect(grid(2, 3, 4) == 7, "what was written through the span");
}

}  // namespace

int main() {
    check(Point{8 * 11, 11, 1});  // row-major
    check(Point{1, 5, 5 * 8});    // column-major
    check(Point{11, 11 * 5, 1});
    return wrong;
}

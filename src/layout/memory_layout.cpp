// SPDX-License-Identifier: BSD-3-Clause
// Memory layouts: the byte address of each element of a process's blocks.
#include "datamover/memory_layout.hpp"

#include <algorithm>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"

namespace datamover {
namespace {

constexpr std::int64_t block_alignment_bytes = 64;

Point ghosts_or_zero(const Point& ghosts, int dims) {
    if (ghosts.dims() == 0) return Point::filled(dims, 0);
    if (ghosts.dims() != dims)
        throw make_error(ErrorCode::invalid_argument, "ghost widths ", ghosts, " for ", dims,
                         " dimensions");
    for (int d = 0; d < dims; ++d)
        if (ghosts[d] < 0)
            throw make_error(ErrorCode::invalid_argument, "ghost width ", ghosts[d],
                             " in dimension ", d, " is negative");
    return ghosts;
}

Point dense_strides(const Point& shape, std::int64_t elem_bytes, ElementOrder order) {
    Point strides = shape;
    std::int64_t stride = elem_bytes;
    for (int i = 0; i < shape.dims(); ++i) {
        const int d = order == ElementOrder::row_major ? shape.dims() - 1 - i : i;
        strides[d] = stride;
        stride = geometry::multiply(stride, shape[d]);
    }
    return strides;
}

}  // namespace

const BlockMemory* MemoryLayout::find(std::int64_t block) const {
    if (blocks.empty()) return nullptr;
    const std::int64_t first = blocks.front().block, last = blocks.back().block;
    if (block < first || block > last) return nullptr;
    // Blocks are mostly dealt evenly; then this is the place.
    const double per_number = static_cast<double>(blocks.size() - 1) /
                              static_cast<double>(std::max<std::int64_t>(last - first, 1));
    const double place = static_cast<double>(block - first) * per_number;
    const auto guess = std::min(blocks.size() - 1, static_cast<std::size_t>(place + 0.5));
    if (blocks[guess].block == block) return &blocks[guess];
    const auto it = std::ranges::lower_bound(blocks, block, {}, &BlockMemory::block);
    return it != blocks.end() && it->block == block ? &*it : nullptr;
}

void check_addresses(const BlockMemory& memory, std::int64_t elem_bytes) {
    if (memory.valid.empty()) return;
    // What lies between the lowest and the highest address fits where these do.
    std::int64_t lowest = memory.offset_bytes, highest = geometry::add(lowest, elem_bytes);
    for (int d = 0; d < memory.valid.dims(); ++d) {
        const std::int64_t stride = memory.strides_bytes[d];
        const std::int64_t first = geometry::multiply(memory.valid.lo()[d], stride);
        const std::int64_t last = geometry::multiply(memory.valid.hi()[d] - 1, stride);
        lowest = geometry::add(lowest, std::min({std::int64_t{0}, first, last}));
        highest = geometry::add(highest, std::max({std::int64_t{0}, first, last}));
    }
    if (lowest < -largest_address || highest > largest_address)
        throw make_error(ErrorCode::out_of_range, "block ", memory.block,
                         " has addresses beyond 2^62");
}

MemoryLayout dense_memory(const Layout& layout, std::int64_t rank, std::int64_t elem_bytes,
                          ElementOrder order, const Point& ghost_lower, const Point& ghost_upper) {
    if (elem_bytes < 1)
        throw make_error(ErrorCode::invalid_argument, "element size ", elem_bytes,
                         " is not positive");
    MemoryLayout memory;
    std::int64_t end = 0;
    for (const std::int64_t block : layout.blocks_of(rank)) {
        const Point extents = layout.block_extents(block);
        const Point lower = ghosts_or_zero(ghost_lower, extents.dims());
        const Point upper = ghosts_or_zero(ghost_upper, extents.dims());
        const bool holds_elements = !Region::from_shape(extents).empty();
        BlockMemory m{block, end, Point::filled(extents.dims(), 0), Region::from_shape(extents)};
        if (holds_elements) {
            m.valid = m.valid.grown(lower, upper);
            const Point shape = m.valid.shape();
            const std::int64_t bytes = geometry::multiply(shape.product(), elem_bytes);
            m.strides_bytes = dense_strides(shape, elem_bytes, order);
            for (int d = 0; d < shape.dims(); ++d)
                m.offset_bytes = geometry::add(m.offset_bytes, lower[d] * m.strides_bytes[d]);
            end = geometry::add(
                end, geometry::multiply(geometry::divide_up(bytes, block_alignment_bytes),
                                        block_alignment_bytes));
        }
        memory.blocks.push_back(m);
    }
    memory.end_bytes = end;
    return memory;
}

}  // namespace datamover

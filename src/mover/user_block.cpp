// SPDX-License-Identifier: BSD-3-Clause
// User arrays: arrays that a program already has become a part that a mover binds.
#include "datamover/user_block.hpp"

#include <algorithm>
#include <string>

#include "geometry/make_error.hpp"
#include "memory/segment_pool.hpp"

namespace datamover {
namespace {

std::string name_of(const UserBlock& user) {
    return concat("block ", user.block);
}

/// The ghost widths of one side, zeros where none were given.
Point checked_ghosts(const UserBlock& user, const Point& ghosts, int dims) {
    if (ghosts.dims() == 0) return Point::filled(dims, 0);
    if (ghosts.dims() != dims)
        throw make_error(ErrorCode::mismatch, name_of(user), " has ", dims,
                         " dimensions, its ghost widths ", ghosts);
    for (int d = 0; d < dims; ++d)
        if (ghosts[d] < 0)
            throw make_error(ErrorCode::invalid_argument, name_of(user),
                             " has the negative ghost width ", ghosts[d]);
    return ghosts;
}

/// The legal local indices of the block, ghosts included; empty for a block without elements.
Region valid_region(const UserBlock& user, const Layout& layout) {
    const Region interior = Region::from_shape(layout.block_extents(user.block));
    const int dims = layout.block_extents(user.block).dims();
    if (user.strides_bytes.dims() != dims)
        throw make_error(ErrorCode::mismatch, name_of(user), " has ", dims,
                         " dimensions, its strides ", user.strides_bytes);
    const Point lower = checked_ghosts(user, user.ghost_lower, dims);
    return interior.grown(lower, checked_ghosts(user, user.ghost_upper, dims));
}

/// Widens the bytes spanned so that they hold the block.
void widen(MemoryLayout& memory, const BlockMemory& block, std::int64_t elem_bytes) {
    if (block.valid.empty()) return;
    std::int64_t lo = block.offset_bytes, hi = block.offset_bytes;
    for (int d = 0; d < block.valid.dims(); ++d) {
        const std::int64_t first = block.valid.lo()[d] * block.strides_bytes[d];
        const std::int64_t last = (block.valid.hi()[d] - 1) * block.strides_bytes[d];
        lo += std::min(first, last);
        hi += std::max(first, last);
    }
    memory.begin_bytes = std::min(memory.begin_bytes, lo);
    memory.end_bytes = std::max(memory.end_bytes, hi + elem_bytes);
}

void check_no_block_twice(const MemoryLayout& memory) {
    for (std::size_t i = 1; i < memory.blocks.size(); ++i)
        if (memory.blocks[i - 1].block == memory.blocks[i].block)
            throw make_error(ErrorCode::invalid_argument, "block ", memory.blocks[i].block,
                             " was given twice");
}

}  // namespace

ArrayPart user_part(const Layout& layout, std::span<const UserBlock> blocks,
                    std::int64_t elem_bytes, ScalarType type, bool writable) {
    if (!layout.valid()) throw Error(ErrorCode::invalid_argument, "an array needs a layout");
    ArrayPart part;
    part.layout = layout;
    part.elem_bytes = elem_bytes;
    part.type = type;
    part.writable = writable;
    for (const UserBlock& user : blocks) {
        const Region valid = valid_region(user, layout);
        if (!user.origin && !valid.empty())
            throw make_error(ErrorCode::invalid_argument, name_of(user),
                             " has elements, but its address is NULL");
        if (!part.base) part.base = user.origin;
        const auto offset = user.origin ? reinterpret_cast<std::intptr_t>(user.origin) -
                                              reinterpret_cast<std::intptr_t>(part.base)
                                        : 0;
        part.memory.blocks.push_back({user.block, offset, user.strides_bytes, valid});
        widen(part.memory, part.memory.blocks.back(), elem_bytes);
    }
    std::ranges::sort(part.memory.blocks,
                      [](const BlockMemory& a, const BlockMemory& b) { return a.block < b.block; });
    check_no_block_twice(part.memory);
    // Memory of the library's, or a piece of it, can be reached by the node.
    if (part.base && part.memory.end_bytes > part.memory.begin_bytes)
        part.allocation = memory::SegmentPool::of_process().find(
            part.base + part.memory.begin_bytes, part.base + part.memory.end_bytes);
    return part;
}

}  // namespace datamover

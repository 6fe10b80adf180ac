// SPDX-License-Identifier: BSD-3-Clause
// C interface of arrays: those of the library, of the caller's blocks and of matrices; their files.
#pragma once

#include "datamover/array.hpp"
#include "datamover/array_part.hpp"
#include "layouts.hpp"

namespace datamover::capi {

/// A new array of the library.
inline ArrayPart new_array(MPI_Comm comm, const Layout& layout, std::int64_t elem_bytes,
                           const ArrayOptions& options) {
    return Array(comm, layout, elem_bytes, options).part();
}
inline ArrayOptions array_options(const Layout& layout, datamover_type type,
                                  std::int64_t elem_bytes, int column_major,
                                  const std::int64_t* ghost_lower,
                                  const std::int64_t* ghost_upper) {
    return {scalar_type(type, elem_bytes),
            column_major ? ElementOrder::column_major : ElementOrder::row_major,
            point_or_none(ghost_lower, layout.dims(), "ghost_lower"),
            point_or_none(ghost_upper, layout.dims(), "ghost_upper")};
}

inline ArrayPart part_of_blocks(const Layout& l, datamover_type type, std::int64_t elem_bytes,
                                const datamover_block* blocks, std::int64_t num_blocks,
                                bool writable) {
    std::vector<UserBlock> users;
    for (const datamover_block& b : values(blocks, num_blocks, "blocks")) {
        const int dims = l.block_extents(b.block).dims();
        users.push_back({b.block, static_cast<std::byte*>(b.origin),
                         point(b.strides_bytes, dims, "strides_bytes"),
                         point_or_none(b.ghost_lower, dims, "ghost_lower"),
                         point_or_none(b.ghost_upper, dims, "ghost_upper")});
    }
    return user_part(l, users, elem_bytes, scalar_type(type, elem_bytes), writable);
}

/// Writes what a caller asks for.
inline void describe_block(const ArrayPart& part, std::int64_t block, void** origin,
                           std::int64_t* strides_bytes) {
    const BlockMemory* memory = part.memory.find(block);
    if (!memory)
        throw make_error(ErrorCode::out_of_range, "this process does not hold block ", block);
    if (origin) *origin = part.base + memory->offset_bytes;
    if (strides_bytes) write_point(memory->strides_bytes, strides_bytes, "strides_bytes");
}

inline ArrayPart part_of_matrix(const Layout& l, std::int64_t rank, const int* descriptor,
                                datamover_type type, std::int64_t elem_bytes, const void* data,
                                bool writable) {
    if (!l.block_cyclic())
        throw make_error(ErrorCode::unsupported, "a ScaLAPACK matrix is block-cyclic, not ",
                         l.describe());
    if (rank < 0 || rank >= l.nprocs())
        throw make_error(ErrorCode::out_of_range, "rank ", rank, " is not one of the layout's ",
                         l.nprocs());
    const auto d = ScalapackDescriptor::from_entries(entries_of(descriptor, "descriptor"));
    ArrayPart part;
    part.layout = l;
    part.elem_bytes = elem_bytes;
    part.type = scalar_type(type, elem_bytes);
    part.writable = writable;
    part.memory = d.memory(*l.block_cyclic(), rank, elem_bytes);
    if (part.memory.blocks.empty()) return part;
    part.base = const_cast<std::byte*>(
        memory_for(l.local_elems(rank), static_cast<const std::byte*>(data), "data"));
    return part;
}

}  // namespace datamover::capi

// SPDX-License-Identifier: BSD-3-Clause
// C interface: arrays of the library and of the user.
#include "datamover/shared_window.hpp"
#include "datamover/user_block.hpp"
#include "datamover/x_array.hpp"
#include "geometry/make_error.hpp"
#include "handles.hpp"
#include "matrices.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace {

struct NewArray {
    Layout layout;
    XArrayOptions options;
};

ArrayPart part_of_blocks(const datamover_layout* layout, datamover_type type,
                         std::int64_t elem_bytes, const datamover_block* blocks,
                         std::int64_t num_blocks, bool writable) {
    const Layout& l = value_of(layout, "layout");
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

ArrayPart part_of_matrix(const datamover_layout* layout, std::int64_t rank, const int* descriptor,
                         datamover_type type, std::int64_t elem_bytes, const void* data,
                         bool writable) {
    const Layout& l = value_of(layout, "layout");
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

}  // namespace

int datamover_array_new(datamover_array** array, MPI_Comm comm, const datamover_layout* layout,
                        datamover_type type, int64_t elem_bytes, int column_major,
                        const int64_t* ghost_lower, const int64_t* ghost_upper) {
    return guarded([&] {
        const NewArray args = capi::collectively(comm, [&] {
            given(array, "array");
            const Layout& l = value_of(layout, "layout");
            return NewArray{l,
                            {scalar_type(type, elem_bytes),
                             column_major ? ElementOrder::column_major : ElementOrder::row_major,
                             point_or_none(ghost_lower, l.dims(), "ghost_lower"),
                             point_or_none(ghost_upper, l.dims(), "ghost_upper")}};
        });
        hand_out(array, "array", XArray(comm, args.layout, elem_bytes, args.options).part());
    });
}

int datamover_array_of_blocks(datamover_array** array, const datamover_layout* layout,
                              datamover_type type, int64_t elem_bytes,
                              const datamover_block* blocks, int64_t num_blocks) {
    return guarded([&] {
        hand_out(array, "array",
                 part_of_blocks(layout, type, elem_bytes, blocks, num_blocks, true));
    });
}

int datamover_array_of_const_blocks(datamover_array** array, const datamover_layout* layout,
                                    datamover_type type, int64_t elem_bytes,
                                    const datamover_block* blocks, int64_t num_blocks) {
    return guarded([&] {
        hand_out(array, "array",
                 part_of_blocks(layout, type, elem_bytes, blocks, num_blocks, false));
    });
}

int datamover_array_of_matrix(datamover_array** array, const datamover_layout* layout, int64_t rank,
                              const int descriptor[9], datamover_type type, int64_t elem_bytes,
                              void* data) {
    return guarded([&] {
        hand_out(array, "array",
                 part_of_matrix(layout, rank, descriptor, type, elem_bytes, data, true));
    });
}

int datamover_array_of_const_matrix(datamover_array** array, const datamover_layout* layout,
                                    int64_t rank, const int descriptor[9], datamover_type type,
                                    int64_t elem_bytes, const void* data) {
    return guarded([&] {
        hand_out(array, "array",
                 part_of_matrix(layout, rank, descriptor, type, elem_bytes, data, false));
    });
}

int datamover_array_block(const datamover_array* array, int64_t block, void** origin,
                          int64_t* strides_bytes) {
    return guarded([&] {
        const ArrayPart& part = value_of(array, "array");
        const BlockMemory* memory = part.memory.find(block);
        if (!memory)
            throw make_error(ErrorCode::out_of_range, "this process does not hold block ", block);
        if (origin) *origin = part.base + memory->offset_bytes;
        if (strides_bytes) write_point(memory->strides_bytes, strides_bytes, "strides_bytes");
    });
}

int datamover_array_free(datamover_array** array) {
    return release(array, "array");
}

int datamover_in_window(datamover_window_memory** known, MPI_Win window, void* memory,
                        int64_t bytes) {
    return guarded([&] {
        given(known, "known");
        hand_out(known, "known", in_window(window, memory, bytes));
    });
}

int datamover_window_memory_free(datamover_window_memory** known) {
    return release(known, "known");
}

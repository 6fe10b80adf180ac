// SPDX-License-Identifier: BSD-3-Clause
// Distributed arrays in memory that the library allocates.
#include "datamover/x_array.hpp"

#include "geometry/make_error.hpp"
#include "memory/segment_pool.hpp"
#include "mpi/process_group.hpp"

namespace datamover {
namespace {

void check_arguments(const mpi::ProcessGroup& group, const Layout& layout, std::int64_t elem_bytes,
                     const XArrayOptions& options) {
    if (!layout.valid()) throw Error(ErrorCode::invalid_argument, "an array needs a layout");
    if (layout.nprocs() != group.size())
        throw make_error(ErrorCode::mismatch, "the layout is for ", layout.nprocs(),
                         " processes, the communicator has ", group.size());
    const std::int64_t type_bytes = scalar_bytes(options.type);
    if (type_bytes != 0 && type_bytes != elem_bytes)
        throw make_error(ErrorCode::wrong_type, "elements of ", scalar_name(options.type), " have ",
                         type_bytes, " bytes, not ", elem_bytes);
}

}  // namespace

XArray::XArray(MPI_Comm comm, const Layout& layout, std::int64_t elem_bytes,
               const XArrayOptions& options)
    : layout_(layout) {
    const auto group = mpi::ProcessGroup::of(comm);
    rank_ = group->rank();
    mpi::collectively(*group, [&] {
        check_arguments(*group, layout, elem_bytes, options);
        part_.elem_bytes = elem_bytes;
        part_.type = options.type;
        part_.layout = layout;
        part_.memory = dense_memory(layout, rank_, elem_bytes, options.order, options.ghost_lower,
                                    options.ghost_upper);
        part_.allocation = group->pool().allocate(part_.memory.end_bytes);
        part_.base = part_.allocation->data;
    });
}

bool XArray::shared() const {
    return part_.allocation && part_.allocation->segment;
}

const BlockMemory& XArray::block_memory(std::int64_t block) const {
    const BlockMemory* memory = part_.memory.find(block);
    if (!memory)
        throw make_error(ErrorCode::out_of_range, "process ", rank_, " does not hold block ",
                         block);
    return *memory;
}

std::byte* XArray::origin(std::int64_t block) const {
    if (!part_.allocation) throw Error(ErrorCode::invalid_state, "the array has been freed");
    return part_.base + block_memory(block).offset_bytes;
}

std::optional<std::int64_t> XArray::only_block() const {
    const auto& blocks = part_.memory.blocks;
    if (blocks.empty()) return {};
    if (blocks.size() > 1)
        throw make_error(ErrorCode::invalid_state, "process ", rank_, " holds ", blocks.size(),
                         " blocks; ask for one of them by its number");
    return blocks.front().block;
}

GridView<std::byte> XArray::byte_grid(std::int64_t block, std::size_t elem_bytes) const {
    if (static_cast<std::int64_t>(elem_bytes) != part_.elem_bytes)
        throw make_error(ErrorCode::wrong_type, "the array's elements have ", part_.elem_bytes,
                         " bytes, those of the grid that was asked for ", elem_bytes);
    const BlockMemory& memory = block_memory(block);
    return {origin(block), layout_.block_extents(block), memory.strides_bytes, memory.valid};
}

void XArray::free() {
    part_.allocation.reset();
    part_.base = nullptr;
}

}  // namespace datamover

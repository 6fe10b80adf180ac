// SPDX-License-Identifier: BSD-3-Clause
// Arrays of the library's, and shared memory as a window of MPI.
#include "datamover/array.hpp"
#include "datamover/shared_window.hpp"
#include "geometry/make_error.hpp"
#include "memory/segment_pool.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/process_group.hpp"

namespace datamover {
namespace {

void check_arguments(const mpi::ProcessGroup& group, const Layout& layout, std::int64_t elem_bytes,
                     const ArrayOptions& options) {
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

Array::Array(MPI_Comm comm, const Layout& layout, std::int64_t elem_bytes,
             const ArrayOptions& options)
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

bool Array::shared() const {
    return part_.allocation && part_.allocation->segment;
}

const BlockMemory& Array::block_memory(std::int64_t block) const {
    const BlockMemory* memory = part_.memory.find(block);
    if (!memory)
        throw make_error(ErrorCode::out_of_range, "process ", rank_, " does not hold block ",
                         block);
    return *memory;
}

std::byte* Array::origin(std::int64_t block) const {
    if (!part_.allocation) throw Error(ErrorCode::invalid_state, "the array has been freed");
    return part_.base + block_memory(block).offset_bytes;
}

std::optional<std::int64_t> Array::only_block() const {
    const auto& blocks = part_.memory.blocks;
    if (blocks.empty()) return {};
    if (blocks.size() > 1)
        throw make_error(ErrorCode::invalid_state, "process ", rank_, " holds ", blocks.size(),
                         " blocks; ask for one of them by its number");
    return blocks.front().block;
}

GridView<std::byte> Array::byte_grid(std::int64_t block, std::size_t elem_bytes) const {
    if (static_cast<std::int64_t>(elem_bytes) != part_.elem_bytes)
        throw make_error(ErrorCode::wrong_type, "the array's elements have ", part_.elem_bytes,
                         " bytes, those of the grid that was asked for ", elem_bytes);
    const BlockMemory& memory = block_memory(block);
    return {origin(block), layout_.block_extents(block), memory.strides_bytes, memory.valid};
}

void Array::close() {
    part_.allocation.reset();
    part_.base = nullptr;
}

namespace {

void require_shared(MPI_Win window) {
    mpi::check_running();
    if (window == MPI_WIN_NULL)
        throw Error(ErrorCode::invalid_argument, "the window is MPI_WIN_NULL");
    int* flavor = nullptr;
    int is_set = 0;
    mpi::check(
        MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, static_cast<void*>(&flavor), &is_set),
        "MPI_Win_get_attr");
    if (!is_set || *flavor != MPI_WIN_FLAVOR_SHARED)
        throw Error(ErrorCode::invalid_argument,
                    "the window was not made with MPI_Win_allocate_shared");
}

int processes_of(MPI_Win window) {
    MPI_Group group = MPI_GROUP_NULL;
    mpi::check(MPI_Win_get_group(window, &group), "MPI_Win_get_group");
    int size = 0;
    const int code = MPI_Group_size(group, &size);
    MPI_Group_free(&group);
    mpi::check(code, "MPI_Group_size");
    return size;
}

struct Part {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
};

/// A process's part of the window, where it is mapped here.
Part part_of(MPI_Win window, int rank) {
    MPI_Aint bytes = 0;
    int unit = 0;
    void* data = nullptr;
    mpi::check(MPI_Win_shared_query(window, rank, &bytes, &unit, static_cast<void*>(&data)),
               "MPI_Win_shared_query");
    return {static_cast<std::byte*>(data), static_cast<std::int64_t>(bytes)};
}

/// The whole part that the memory lies in: all arrays in it are then known as one segment.
Part part_around(MPI_Win window, const std::byte* memory, std::int64_t bytes) {
    const int processes = processes_of(window);
    for (int rank = 0; rank < processes; ++rank) {
        const Part part = part_of(window, rank);
        if (part.data <= memory && bytes <= part.bytes && memory - part.data <= part.bytes - bytes)
            return part;
    }
    throw make_error(ErrorCode::invalid_argument, "the ", bytes,
                     " bytes do not lie in one process's part of the window");
}

}  // namespace

std::shared_ptr<const void> in_window(MPI_Win window, void* memory, std::int64_t bytes) {
    require_shared(window);
    if (bytes < 0)
        throw make_error(ErrorCode::invalid_argument, bytes,
                         " bytes were said to lie in the window");
    if (bytes == 0) return nullptr;
    const Part part = part_around(window, static_cast<const std::byte*>(memory), bytes);
    // MPI need not share the memory of one process alone.
    if (processes_of(window) == 1) return nullptr;
    try {
        return memory::SegmentPool::of_process().adopt(part.data, part.bytes);
    } catch (const Error& e) {
        throw make_error(ErrorCode::unsupported, "the window's memory cannot be used: ", e.what());
    }
}

}  // namespace datamover

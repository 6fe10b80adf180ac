// SPDX-License-Identifier: BSD-3-Clause
// Registration of user arrays that are located in shared memory of a node.
#include "datamover/shared_window.hpp"

#include "geometry/make_error.hpp"
#include "memory/segment_pool.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"

namespace datamover {
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

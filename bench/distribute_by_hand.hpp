// SPDX-License-Identifier: BSD-3-Clause
// Hand-written distribution: a counting sort, then MPI_Alltoallv.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "distribute_case.hpp"

namespace bench {

/// The memory is kept from call to call, so that fresh pages do not count.
class CountingSort {
public:
    CountingSort(MPI_Comm comm, std::int64_t elem_bytes);
    ~CountingSort();
    CountingSort(const CountingSort&) = delete;
    CountingSort& operator=(const CountingSort&) = delete;

    /// Distributes `count` elements by the int at an offset; returns how many are in `result`,
    /// which may be where they came from.
    std::int64_t run(const std::byte* elements, std::int64_t count,
                     std::int64_t target_offset_bytes, std::vector<std::byte>& result);

private:
    void sort(const std::byte* elements, std::int64_t count, std::int64_t target_offset_bytes);

    MPI_Comm comm_;
    std::int64_t elem_bytes_;
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
    std::vector<std::byte> sorted_;
    std::vector<int> send_counts_, send_starts_, recv_counts_, recv_starts_;
};

}  // namespace bench

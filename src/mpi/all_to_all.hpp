// SPDX-License-Identifier: BSD-3-Clause
// All-to-all exchange with 64-bit sizes.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "process_group.hpp"

namespace datamover::mpi {

/// Sizes and places of the blocks to, or from, each rank, in elements.
struct Blocks {
    std::vector<std::int64_t> counts, starts;

    /// Blocks of these sizes one behind the other.
    static Blocks behind(std::vector<std::int64_t> counts);
    std::int64_t total() const;
};

/// Whether the MPI that is loaded has the calls of MPI 4, with 64-bit counts and displacements: it
/// may be older than that compiled against, as beside a wheel. Then they are null.
bool has_large_counts();

/// True when a buffer of so many elements can be named to `all_to_all`: always from MPI 4 on,
/// before it below 2^31 elements.
bool all_to_all_reaches(std::int64_t elems);

/// MPI_Alltoallv with elements of `elem_bytes` bytes; `memory` is kept where the operation
/// fails and may still touch it. Collective. Throws mpi, unsupported, peer_failed, timeout.
void all_to_all(std::vector<std::shared_ptr<const void>> memory, const std::byte* send,
                const Blocks& sent, std::byte* receive, const Blocks& received,
                std::int64_t elem_bytes, const ProcessGroup& group);

}  // namespace datamover::mpi

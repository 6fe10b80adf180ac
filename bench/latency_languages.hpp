// SPDX-License-Identifier: BSD-3-Clause
// Exchange of faces by a mover that is called from C and from Fortran.
#pragma once

#include <mpi.h>

#include <functional>
#include <vector>

#include "latency_faces.hpp"

namespace bench {

/// This process's blocks in the library's memory, by ascending number: their first stored elements.
struct OwnBlocks {
    std::vector<std::int64_t> numbers;
    std::vector<double*> stored;
};

/// A mover with "auto" that is made and called by the C face. Collective.
std::function<void()> halo_from_c(MPI_Comm comm, const BlockGrid& grid, const OwnBlocks& own);
/// Likewise by the Fortran module; throws where it was not built.
std::function<void()> halo_from_fortran(MPI_Comm comm, const BlockGrid& grid, const OwnBlocks& own);

}  // namespace bench

// SPDX-License-Identifier: BSD-3-Clause
// Copying a section of one ScaLAPACK matrix to a section of another.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "datamover/export.h"
#include "datamover/scalapack_descriptor.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// One of the two matrices of a copy, as seen by one process.
struct ScalapackMatrix {
    std::byte* data = nullptr;        ///< the local matrix; ignored outside the grid
    std::array<int, 9> descriptor{};  ///< CTXT is ignored, and LLD outside the grid
    ProcessGrid grid;                 ///< ranks are those of the communicator
    std::int64_t row = 1;             ///< of the section's first element, from 1
    std::int64_t column = 1;
};

/// Copy the m x n section of `source` to that of `destination`, in elements of `elem_bytes`. All
/// processes of `comm` pass the same arguments except addresses and LLD. Repeated calls use the
/// mover of the first (with the same addresses). Throws on all processes, before anything is moved:
/// invalid_argument, unsupported (descriptors, grids), out_of_range (sections, ranks), mismatch
/// (arguments that differ between processes), wrong_type (elem_bytes). Collective.
void copy_matrix(MPI_Comm comm, std::int64_t m, std::int64_t n, const ScalapackMatrix& source,
                 const ScalapackMatrix& destination, std::int64_t elem_bytes);

}  // namespace datamover

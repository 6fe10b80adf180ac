// SPDX-License-Identifier: BSD-3-Clause
// Queries to BLACS: grids, positions in them and communicators.
#pragma once

#include <mpi.h>

#include "datamover/datamover.h"

namespace datamover {

/// A context's grid, and this process's place in it.
struct Place {
    int nprow = -1, npcol = -1, row = -1, column = -1;

    explicit Place(int context);
    bool in_grid() const { return row >= 0 && column >= 0; }
};

/// The communicator that stands for a context (context_communicator). Collective at the first call
/// for a context. Throws mpi.
MPI_Comm communicator_of(int context);

/// What this process says of a matrix: nothing where it is not in its grid.
datamover_matrix matrix_here(const void* data, int row, int column, const int* descriptor);

}  // namespace datamover

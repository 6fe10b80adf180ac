// SPDX-License-Identifier: BSD-3-Clause
// The report of calls with ScaLAPACK's arguments (DATAMOVER_REPORT).
#pragma once

#include <mpi.h>

#include <vector>

#include "datamover/datamover.h"

namespace datamover {

/// Whether a report is asked for: DATAMOVER_REPORT=1, of process 0 alone, or =all, of every
/// process.
bool reporting();
/// Room for what a call on `comm` tells.
std::vector<datamover_mover_pair>& room_for_pairs(MPI_Comm comm);
/// Adds a call; the sum is printed on standard error when the program ends.
void add_to_report(const datamover_matrix_outcome& outcome);

}  // namespace datamover

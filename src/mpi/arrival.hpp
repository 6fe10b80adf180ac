// SPDX-License-Identifier: BSD-3-Clause
// Have all processes of a communicator come, so that calls of MPI that cannot be given up return?
#pragma once

#include <mpi.h>

namespace datamover::mpi {

/// Waits until all processes of `comm` have called it, polling. Collective. Throws timeout or
/// Interrupted; a later call then goes on waiting for the same.
void wait_for_arrival(MPI_Comm comm);

}  // namespace datamover::mpi

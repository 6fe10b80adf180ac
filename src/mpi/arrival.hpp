// SPDX-License-Identifier: BSD-3-Clause
// Waiting until all processes of a communicator have arrived, before MPI calls that cannot be
// abandoned.
#pragma once

#include <mpi.h>

namespace datamover::mpi {

/// Waits until all processes of `comm` have called it, polling; gives a duplicate of it.
/// Collective. Throws timeout or Interrupted, also where a process came and gave up; a later call
/// then goes on waiting for the same.
MPI_Comm duplicate_when_all_came(MPI_Comm comm);

}  // namespace datamover::mpi

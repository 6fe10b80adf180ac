// SPDX-License-Identifier: BSD-3-Clause
// The first and the last use of a communicator by all its processes.
#pragma once

#include <mpi.h>

#include <vector>

namespace datamover::mpi {

/// A duplicate of a communicator, made once all its processes have called this. Throws timeout at
/// the deadline, Interrupted, mpi; where some processes have thrown and others have not, a call by
/// all of them makes up for it. Collective.
MPI_Comm duplicate_when_all_came(MPI_Comm comm);

/// Frees communicators of the same processes, or of some of them, once each process of the first
/// one has called this; before that, another one may still send messages with them, such as the
/// notice of a failure. MPI could otherwise give their contexts to new communicators, which would
/// receive these. What can be freed is freed by the next call of this or of `free_left`; what some
/// process never leaves, never. Local: begins a barrier and does not wait for it.
void free_when_all_left(std::vector<MPI_Comm> comms) noexcept;
/// Frees what all processes have left by now. Local, from any thread.
void free_left() noexcept;

}  // namespace datamover::mpi

// SPDX-License-Identifier: BSD-3-Clause
// Threads that may call MPI.
#pragma once

namespace datamover::mpi {

/// Whether MPI was initialised with MPI_THREAD_MULTIPLE. Throws mpi.
bool any_thread_may_call();
/// Whether this thread may call MPI at the level that it was initialised with. Cheap.
bool may_call();
/// The same where the program does not expect it: with MPI_THREAD_SERIALIZED another of its threads
/// may be in a call.
bool may_call_unasked();
/// Throws invalid_state when this thread may not call MPI at the level that it was initialised
/// with. Cheap.
void check_thread();

}  // namespace datamover::mpi

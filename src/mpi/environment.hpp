// SPDX-License-Identifier: BSD-3-Clause
// Surroundings of this process: environment variables, threads that may call MPI, machine,
// processors.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "datamover/error.hpp"

namespace datamover::mpi {

/// DATAMOVER_NODE_SIZE: processes per pretend node; 0 where the real nodes count.
std::int64_t pretend_node_size();
/// DATAMOVER_PEER_READS: whether processes may read each other's memory where the system lets them.
bool may_read_peers();
/// DATAMOVER_TIMEOUT: seconds; empty where there is no deadline.
std::optional<double> environment_timeout();

/// The first variable of the library that holds what cannot be, with what it may be; the functions
/// above take such a one for not set. Local.
std::optional<Error> environment_error();

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

/// What MPI calls itself, with its version; empty where it does not say.
std::string library_version();

/// A number that processes of one machine share if they see each other's process ids, and processes
/// of other machines or containers hardly ever do: of the kernel's boot, the name of the host and
/// the namespace. Local.
std::int64_t machine_number();

/// A bit for each processor that this process may run on: a batch system, a container or `taskset`
/// may leave it fewer than the machine has.
using ProcessorSet = std::array<std::uint64_t, 16>;

/// Local. Where the system does not say: as many as are online.
ProcessorSet usable_processors();
std::int64_t count(const ProcessorSet& processors);

}  // namespace datamover::mpi

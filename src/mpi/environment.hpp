// SPDX-License-Identifier: BSD-3-Clause
// Environment variables, read and checked.
#pragma once

#include <cstdint>
#include <optional>

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

}  // namespace datamover::mpi

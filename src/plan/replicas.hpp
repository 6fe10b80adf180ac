// SPDX-License-Identifier: BSD-3-Clause
// Choice of the replica that sends to a process.
#pragma once

#include <cstdint>
#include <span>

#include "datamover/block_cyclic.hpp"

namespace datamover::plan {

/// The node of each rank; empty where nobody knows.
using Nodes = std::span<const std::int64_t>;

/// The copy of `block` (of any replica) from which `receiver` gets it: its own, else that of the
/// lowest rank on its node, else that of the lowest rank. O(replicas).
std::int64_t nearest_replica(const BlockCyclic& layout, std::int64_t block, std::int64_t receiver,
                             Nodes nodes);

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// What a process sends and receives, also in an in-place move, in which one array is source and
// destination; and the replica that sends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datamover/block_cyclic.hpp"
#include "datamover/motion_plan.hpp"
#include "datamover/side.hpp"

namespace datamover::plan {

/// The node of each rank; empty where nobody knows.
using Nodes = std::span<const std::int64_t>;

/// The copy of `block` (of any replica) from which `receiver` gets it: its own, else that of the
/// lowest rank on its node, else that of the lowest rank. O(replicas).
std::int64_t nearest_replica(const BlockCyclic& layout, std::int64_t block, std::int64_t receiver,
                             Nodes nodes);

/// MotionPlan::outgoing (side source) or incoming. If `in_place`, without the pieces of
/// redistributions that bring elements of a block to themselves: they stay where they are, whatever
/// the operation. A section copy to itself is what its author says, and stays in.
std::vector<PeerPart> parts_of(const MotionPlan& plan, std::int64_t rank, Side side, Nodes nodes,
                               bool in_place = false);

}  // namespace datamover::plan

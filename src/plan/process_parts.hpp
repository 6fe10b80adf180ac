// SPDX-License-Identifier: BSD-3-Clause
// What a process sends and receives: the replica that sends, and the parts of an in-place move, in
// which one array is source and destination.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datamover/block_cyclic.hpp"
#include "datamover/motion_plan.hpp"

namespace datamover::plan {

/// The node of each rank; empty where nobody knows.
using Nodes = std::span<const std::int64_t>;

/// The copy of `block` (of any replica) from which `receiver` gets it: its own, else that of the
/// lowest rank on its node, else that of the lowest rank. O(replicas).
std::int64_t nearest_replica(const BlockCyclic& layout, std::int64_t block, std::int64_t receiver,
                             Nodes nodes);

/// As MotionPlan::outgoing and incoming, without the pieces of redistributions that bring elements
/// of a block to themselves: they stay where they are, whatever the operation. A section copy to
/// itself is what its author says, and stays in.
std::vector<PeerPart> outgoing_in_place(const MotionPlan& plan, std::int64_t rank, Nodes nodes);
std::vector<PeerPart> incoming_in_place(const MotionPlan& plan, std::int64_t rank, Nodes nodes);

/// Whether each element goes to itself.
bool is_identity(const BlockPair& blocks, const BoxShape& box);
bool is_identity(const ProductPiece& piece);

/// Leaves out the elements that go to themselves.
void drop_identities(IndexPiece& piece);

}  // namespace datamover::plan

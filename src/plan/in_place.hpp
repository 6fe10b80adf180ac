// SPDX-License-Identifier: BSD-3-Clause
// Parts of an in-place move: what remains if one array is source and destination.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "plan/replicas.hpp"

namespace datamover::plan {

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

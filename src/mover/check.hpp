// SPDX-License-Identifier: BSD-3-Clause
// Do all processes mean the same move, and is it a sound one?
#pragma once

#include "binding.hpp"

namespace datamover {

/// Verifies that plan and options are the same on all processes. Throws mismatch on all of them,
/// naming a process that differs from process 0 and what differs. Collective.
void check_same_plan(const mpi::ProcessGroup& group, const MotionPlan& plan,
                     const MoverOptions& options);

/// Verifies that what is sent is what is expected, for every pair, that no element is written twice
/// and that none is read that is written. Throws mismatch, invalid_argument or out_of_range on all
/// processes, naming process, blocks and regions. Collective; memory O(processes).
void check_bound(const mpi::ProcessGroup& group, const ProcessPlan& mine, const ArrayPart& source,
                 const ArrayPart& destination, const MoverOptions& options);

}  // namespace datamover

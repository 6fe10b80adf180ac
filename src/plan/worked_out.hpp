// SPDX-License-Identifier: BSD-3-Clause
// Values derived from a plan at first use, shared by its copies.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "datamover/side.hpp"
#include "geometry/first_use.hpp"

namespace datamover::plan {

/// Shared by the copies of a plan; a plan that is changed gets a new one. Safe to ask from several
/// threads at once.
struct WorkedOut {
    struct OwnedTerm {
        std::int64_t rank = 0, term = 0;
    };
    /// The rank of terms in which any process may take part.
    static constexpr std::int64_t any_rank = -1;

    /// The terms by the processes between which they go, so that a process need not walk over the
    /// sections of all others: by rank, then term.
    geometry::FirstUse<PerSide<std::vector<OwnedTerm>>> terms;
    geometry::FirstUse<std::vector<std::int64_t>> digests;  // of the two layouts and each term

    /// Forgets what is known about a plan whose terms have changed; its copies keep theirs.
    static void forget(MotionPlan& plan);
    /// Of a plan with layouts.
    static const WorkedOut& of(const MotionPlan& plan) { return *plan.worked_out_; }
};

/// The numbers of the terms in which `rank` may be on `side`, ascending; of a plan with one term,
/// that one whoever takes part. O(answer + log n), after O(n log n) at the first call.
std::vector<std::int64_t> terms_of(const MotionPlan& plan, std::int64_t rank, Side side);

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Index of the terms of a plan that may concern a process.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "datamover/side.hpp"
#include "geometry/first_use.hpp"

namespace datamover::plan {

/// The section copies of a plan by the processes between which they go. Built at the first
/// question, so that a process need not walk over the sections of all others. Safe to ask from
/// several threads at once.
class TermIndex {
public:
    /// The numbers of the terms in which `rank` may be on `side`, ascending. O(answer + log n),
    /// after O(n log n) at the first call; of a few terms O(n) each time.
    static std::vector<std::int64_t> terms_of(const MotionPlan& plan, std::int64_t rank, Side side);

    /// Whether anybody has asked.
    bool is_known() const { return terms_.is_known(); }

private:
    struct OwnedTerm {
        std::int64_t rank = 0, term = 0;
    };
    struct Terms {
        PerSide<std::vector<OwnedTerm>> sections;  // by rank, then term
        std::vector<std::int64_t> others;          // those that any process may take part in
    };
    static Terms terms_by_rank(const MotionPlan& plan);

    geometry::FirstUse<Terms> terms_;
};

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Which terms of a plan may concern a process?
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "datamover/side.hpp"

namespace datamover::plan {

/// The section copies of a plan by the processes between which they go. Built at the first
/// question, so that a process need not walk over the sections of all others. Safe to ask from
/// several threads at once.
class [[gnu::visibility("hidden")]] TermIndex {
public:
    /// The numbers of the terms in which `rank` may be on `side`, ascending. O(answer + log n),
    /// after O(n log n) at the first call.
    static std::vector<std::int64_t> terms_of(const MotionPlan& plan, std::int64_t rank, Side side);

    std::atomic<bool> known = false;  ///< whether anybody has asked

private:
    struct OwnedTerm {
        std::int64_t rank = 0, term = 0;
    };

    void build(const MotionPlan& plan);

    std::once_flag once_;
    PerSide<std::vector<OwnedTerm>> sections_;  // by rank, then term
    std::vector<std::int64_t> others_;          // terms that any process may take part in
};

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Which numbers tell two plans apart, computed once for all copies of a plan?
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "datamover/motion_plan.hpp"

namespace datamover::plan {

/// Shared by the copies of a plan; a plan that is changed gets new ones.
struct [[gnu::visibility("hidden")]] PlanDigests {
    std::once_flag once;
    std::atomic<bool> known = false;
    std::vector<std::int64_t> parts;  ///< of the two layouts and each term
    std::int64_t all = 0;

    static const PlanDigests& of(const MotionPlan& plan);
};

}  // namespace datamover::plan

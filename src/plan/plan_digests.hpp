// SPDX-License-Identifier: BSD-3-Clause
// Digests of plans.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "geometry/first_use.hpp"

namespace datamover::plan {

/// The digests of a plan, worked out at the first question.
class PlanDigests {
public:
    struct Digests {
        std::vector<std::int64_t> parts;  ///< of the two layouts and each term
        std::int64_t all = 0;
    };
    /// Throws invalid_argument of a plan without layouts.
    static const Digests& of(const MotionPlan& plan);
    /// Whether anybody has asked.
    bool is_known() const { return digests_.is_known(); }

private:
    static Digests digests_of(const MotionPlan& plan);

    geometry::FirstUse<Digests> digests_;
};

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Values derived from a plan at first use, shared by its copies.
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

/// Shared by the copies of a plan; a plan that is changed gets a new one.
struct WorkedOut {
    PlanDigests digests;
    TermIndex index;

    /// Whether anything is.
    bool is_known() const { return digests.is_known() || index.is_known(); }
};

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Values derived from a plan at first use, shared by its copies.
#pragma once

#include "plan_digests.hpp"
#include "term_index.hpp"

namespace datamover::plan {

/// Shared by the copies of a plan; a plan that is changed gets a new one.
struct WorkedOut {
    PlanDigests digests;
    TermIndex index;

    /// Whether anything is.
    bool is_known() const { return digests.is_known() || index.is_known(); }
};

}  // namespace datamover::plan

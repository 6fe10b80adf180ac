// SPDX-License-Identifier: BSD-3-Clause
// Which implementation is the fastest here?
#pragma once

#include <string>
#include <vector>

#include "distribution_state.hpp"

namespace datamover::distribute {

/// What was measured for a group; the same on all its processes.
struct MethodTimes {
    std::vector<MethodTime> times;

    /// The fastest for elements of about this size; ours where none is faster by a tenth. In place
    /// it is the fastest for the sum of all sizes, so that arrays of different elements which move
    /// one after the other arrive in the same order.
    const std::string& fastest(std::int64_t elem_bytes, bool in_place) const;
};

/// Moves samples by every implementation when a group first asks: elements of two sizes with
/// targets in turn, and in place with one in eight that leaves. Collective; local once it is
/// measured.
const MethodTimes& method_times(const State& state, NodeSlot& slot);

}  // namespace datamover::distribute

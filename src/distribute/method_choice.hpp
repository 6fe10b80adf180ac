// SPDX-License-Identifier: BSD-3-Clause
// Choice of the implementation that carries a migration with method "auto".
#pragma once

#include <string>
#include <vector>

#include "migration_state.hpp"

namespace datamover::distribute {

/// What was measured for a group; the same on all its processes.
struct MethodTimes {
    std::vector<MethodTime> times;

    /// The fastest for elements of about this size: "partition" unless another one is faster by a
    /// tenth, or if nothing was measured. In place it is the fastest for the sum of all sizes, so
    /// that arrays of different elements which move one after the other arrive in the same order.
    const std::string& fastest(std::int64_t elem_bytes, bool in_place) const;
};

/// Times samples with every implementation at the first call for a group: elements of two sizes
/// with targets in turn, and in place with one in eight that leaves. Measures nothing if all
/// processes share the memory of one node: there "partition" copies each element once, straight to
/// its place, and a measurement could only be misled by noise. Collective at the first call, then
/// local.
const MethodTimes& method_times(const State& state, NodeSlot& slot);

}  // namespace datamover::distribute

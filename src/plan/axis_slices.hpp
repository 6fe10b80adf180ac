// SPDX-License-Identifier: BSD-3-Clause
// Slices of an axis table, most of them equal.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "datamover/advanced/axis_table.hpp"
#include "datamover/side.hpp"

namespace datamover::plan {

/// A slice of a table: a table, and by how many positions it is to be moved.
struct AxisSlice {
    std::shared_ptr<const AxisTable> table;  ///< shared between slices that are alike; then the
                                             ///< first of them is not moved
    PerSide<std::int64_t> shift;
};

/// Cuts a table, in its order, into slices of at most `most_positions` (>= 1). Where a period fits,
/// slices are whole periods. O(runs + slices).
std::vector<AxisSlice> slices_of(const std::shared_ptr<const AxisTable>& table,
                                 std::int64_t most_positions);

}  // namespace datamover::plan

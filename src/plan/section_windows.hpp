// SPDX-License-Identifier: BSD-3-Clause
// Windows of a redistributed section that a floor plan's blocks hold.
#pragma once

#include <cstdint>
#include <vector>

#include "coverage.hpp"

namespace datamover::plan {

/// Where the blocks lie; `lo` is the section's lower corner in their layout, dimension k of t being
/// dimension dims[k] of the layout.
std::vector<Window> windows_of(const FloorPlan& plan, const std::vector<std::int64_t>& blocks,
                               const Point& lo, const std::vector<int>& dims, const Point& extent);

/// Where a source block sends from: everywhere, or where no lower-numbered block of a floor plan
/// holds the same points.
std::vector<Window> sending_windows(const Layout& source, std::int64_t block,
                                    const SectionFrame& f);

}  // namespace datamover::plan

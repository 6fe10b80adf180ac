// SPDX-License-Identifier: BSD-3-Clause
// Windows of a redistributed section that a floor plan's blocks hold.
#pragma once

#include <cstdint>
#include <vector>

#include "coverage.hpp"

namespace datamover::plan {

/// Where the blocks of one side's layout lie.
std::vector<Window> windows_of(const FloorPlan& plan, const std::vector<std::int64_t>& blocks,
                               const SectionFrame& f, Side side);

/// Where a source block sends from: everywhere, or where no lower-numbered block of a floor plan
/// holds the same points.
std::vector<Window> sending_windows(const Layout& source, std::int64_t block,
                                    const SectionFrame& f);

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Which sections fill the ghosts of given blocks of a floor plan?
#pragma once

#include <functional>

#include "datamover/motion_plan.hpp"

namespace datamover::plan {

using VisitSection = std::function<void(const SectionCopy&)>;

/// Every section that fills ghosts of `block`, in one fixed order. The source regions are where the
/// sender holds the points, so periodic images appear as differing regions of the same shape.
void halo_sections_into(const FloorPlan& floorplan, const HaloExchange& exchange, std::int64_t block,
                        const VisitSection& visit);

/// The blocks whose ghosts may read the interior of `block`, ascending, without repetition.
std::vector<std::int64_t> halo_readers_of(const FloorPlan& floorplan, const HaloExchange& exchange,
                                          std::int64_t block);

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Products of halo boxes with the points of one color.
#pragma once

#include <cstdint>
#include <functional>

#include "datamover/motion_plan.hpp"
#include "halo.hpp"

namespace datamover::plan {

/// Most colours of a halo: a box of d dimensions falls into up to colours^(d - 1) products.
inline constexpr std::int64_t most_colours = 64;

/// The points of the exchange's colour in a box of an interior, as boxes of every colours-th point:
/// visit(offset) for each, where it begins in the box, in one fixed order. `lo` is the box's lower
/// corner in global indices.
void for_each_colour_offset(const HaloExchange& exchange, const Point& lo, const Point& extent,
                            const std::function<void(const Point& offset)>& visit);

/// The same for a box between an interior and ghosts, as GhostBoxes gives it, as products between
/// `blocks`; where the exchange is reversed, from the ghosts to the interior.
void for_each_coloured_product(const FloorPlan& floorplan, const HaloExchange& exchange,
                               const BlockPair& blocks, const BoxShape& box,
                               const std::function<void(ProductPiece&&)>& visit);

}  // namespace datamover::plan

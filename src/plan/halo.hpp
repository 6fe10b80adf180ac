// SPDX-License-Identifier: BSD-3-Clause
// Sections that fill the ghosts of given blocks.
#pragma once

#include <functional>
#include <vector>

#include "datamover/motion_plan.hpp"

namespace datamover::plan {

using VisitSection = std::function<void(const SectionCopy&)>;

/// The blocks of a layout as boxes, numbered as the layout does. Throws unsupported where they are
/// none, and says what would be right.
const FloorPlan& boxes_for_halo(const Layout& layout);

/// Whether an exchange goes across the ends of dimension d.
bool wraps(const HaloExchange& exchange, int d);

/// The dimensions in which a periodic domain wraps around where nothing else is said: all. A region
/// of no dimensions is no domain; one of some that holds no point is refused by
/// `check_halo_exchange`.
std::vector<bool> wraps_of(const Region& periodic, int dims);

/// The length of the period per dimension, 0 where nothing wraps.
Point period_of(const HaloExchange& exchange, int dims);

/// All numbers of periods by which `moved` must be shifted to meet `fixed`, as a region.
Region periods_to_meet(const Region& moved, const Region& fixed, const Point& period);

/// Throws mismatch or invalid_argument where an exchange does not fit blocks that span `blocks`:
/// dimensions, negative widths, a dimension that is to wrap around an empty domain or one shorter
/// than the blocks together, a colour that is none.
void check_halo_exchange(const Region& blocks, const HaloExchange& exchange);

/// Every section that fills ghosts of `block`, in one fixed order; with steps where there are
/// several colours. The source regions are where the
/// sender holds the points, so periodic images appear as differing regions of the same shape.
/// A point of an interior of a lower-numbered block comes from there, whatever other interiors or
/// images hold it; where several images of that block hold it, from the image that is shifted by
/// the fewest periods in dimension 0, then in dimension 1 and so on, downward before upward. Ghosts
/// that no interior or image holds, and the block's own interior, are in no section. The exchange
/// must have passed `check_halo_exchange`. `exchange.reversed` is not looked at: the caller swaps
/// the sides of each section. Local; the cost follows the number of images that meet the ghosts.
void halo_sections_into(const FloorPlan& floorplan, const HaloExchange& exchange,
                        std::int64_t block, const VisitSection& visit);

/// The blocks whose ghosts may read the interior of `block`, ascending, without repetition: every
/// true reader, and where interiors overlap also some for which a lower-numbered block sends.
/// Neither looks at `exchange.reversed`. Local; the cost follows the answer.
std::vector<std::int64_t> halo_readers_of(const FloorPlan& floorplan, const HaloExchange& exchange,
                                          std::int64_t block);

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Halo exchanges: the boxes and sections that fill the ghosts of given blocks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "datamover/motion_plan.hpp"

namespace datamover::plan {

using VisitSection = std::function<void(const SectionCopy&)>;

/// The blocks of a layout as boxes, numbered as the layout does. Throws unsupported where they are
/// none, and says what would be right.
const FloorPlan& boxes_for_halo(const Layout& layout);

/// Whether an exchange goes across the ends of dimension d.
bool wraps(const HaloExchange& exchange, int d);

/// The dimensions in which a periodic domain wraps around: `given`, or all if that is empty. A
/// region without dimensions is not a domain; one that has dimensions but no point is refused by
/// `check_halo_exchange`.
std::vector<bool> wraps_of(const std::vector<bool>& given, const Region& periodic, int dims);

/// The length of the period per dimension, 0 where nothing wraps.
Point period_of(const HaloExchange& exchange, int dims);

/// All numbers of periods by which `moved` must be shifted to meet `fixed`, as a region.
Region periods_to_meet(const Region& moved, const Region& fixed, const Point& period);

/// Throws mismatch or invalid_argument where an exchange does not fit blocks that span `blocks`:
/// dimensions, negative widths, a dimension that is to wrap around an empty domain or one shorter
/// than the blocks together, a color that is none.
void check_halo_exchange(const Region& blocks, const HaloExchange& exchange);

/// Most colors of a halo: a box of d dimensions falls into up to colors^(d - 1) sections.
inline constexpr std::int64_t most_colors = 64;

/// Visits the sections of a box that fills ghosts, as passed by GhostBoxes: one, or, if there are
/// several colors, sections with steps that hold the points of the exchange's color, in one fixed
/// order. If the exchange is reversed, they go from the ghosts to the interior. The regions of the
/// interior are where it holds the points, so periodic images appear as differing regions of the
/// same shape.
void for_each_section(const FloorPlan& floorplan, const HaloExchange& exchange,
                      const BlockPair& filled, const BoxShape& box, const VisitSection& visit);

// Boxes that fill the ghosts of a floor plan's blocks.

/// Expands a halo exchange block by block, in one fixed order. A point of an interior of a
/// lower-numbered block comes from there, whatever other interiors or images hold it; where several
/// images of that block hold it, from the image that is shifted by the fewest periods in dimension
/// 0, then in dimension 1 and so on, downward before upward. Ghosts that no interior or image
/// holds, and the block's own interior, are in no box. The exchange must have passed
/// `check_halo_exchange`. `exchange.reversed` and its colors are ignored. Keeps its scratch
/// memory from block to block; not for several threads at once.
class GhostBoxes {
public:
    /// Receives a box of the source block's interior and of the destination block's ghosts.
    using Visit = std::function<void(const BlockPair& blocks, const BoxShape& box)>;

    /// The floor plan and the exchange must outlive it. The first for a floor plan: O(n log n).
    GhostBoxes(const FloorPlan& floorplan, const HaloExchange& exchange);

    /// Whether no point lies in two interiors or images: then either side knows alone what goes
    /// where.
    bool images_are_disjoint() const { return disjoint_; }
    /// Every box that fills ghosts of `block`. The cost follows the number of images that meet the
    /// ghosts.
    void into(std::int64_t block, const Visit& visit);
    /// Every box of `block` that fills ghosts; those of a pair of blocks in the order that `into`
    /// gives them. Only where images are disjoint.
    void out_of(std::int64_t block, const Visit& visit);
    /// The blocks whose ghosts may read an interior of `blocks`, ascending, without repetition:
    /// every true reader, and where interiors overlap also some for which a lower-numbered block
    /// sends. The cost follows the answer.
    std::vector<std::int64_t> readers_of(std::span<const std::int64_t> blocks);

private:
    /// An interior, shifted by whole periods, that meets the box looked at.
    struct Image {
        std::int64_t block = 0;
        std::size_t shift = 0;
    };
    struct Shift {
        Point periods;  ///< how many periods per dimension
        Point points;
    };

    /// A box as plain numbers, for the loops over images.
    struct Box {
        std::array<std::int64_t, max_dims> lo, hi;
    };

    void find_images(const Region& box);
    void sort_images();
    bool is_itself(const Image& image, std::int64_t block) const;
    Region region_of(const Image& image) const;
    Box box_of(std::int64_t block, const Point& shift) const;
    std::vector<Region> slabs(const Region& interior, const Point& lower, const Point& upper) const;
    void visit_meeting(const Box& sender, const Box& reader, const BlockPair& blocks,
                       const Visit& visit);
    void into_overlapping(std::int64_t block, const Region& interior, const Visit& visit);

    const FloorPlan& floorplan_;
    const HaloExchange& exchange_;
    std::span<const std::int64_t> lower_corners_, upper_corners_;
    int dims_;
    Point period_;  ///< 0 where nothing wraps
    bool disjoint_;
    std::vector<Shift> shifts_;
    std::vector<Image> images_;
    std::vector<std::int64_t> found_;
    BoxShape box_;
};

}  // namespace datamover::plan

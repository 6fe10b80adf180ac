// SPDX-License-Identifier: BSD-3-Clause
// Boxes that fill the ghosts of a floor plan's blocks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "datamover/motion_plan.hpp"

namespace datamover::plan {

/// Expands a halo exchange block by block. What it yields, and in which order, is told in halo.hpp.
/// Keeps its scratch memory from block to block; not for several threads at once.
class GhostBoxes {
public:
    /// Receives a box of the source block's interior and of the destination block's ghosts.
    using Visit = std::function<void(std::int64_t source_block, std::int64_t destination_block,
                                     const BoxShape& box)>;

    /// The floor plan and the exchange must outlive it. The first for a floor plan: O(n log n).
    GhostBoxes(const FloorPlan& floorplan, const HaloExchange& exchange);

    /// Whether no point lies in two interiors or images: then either side knows alone what goes
    /// where.
    bool images_are_disjoint() const { return disjoint_; }
    /// Every box that fills ghosts of `block`.
    void into(std::int64_t block, const Visit& visit);
    /// Every box of `block` that fills ghosts; those of a pair of blocks in the order that `into`
    /// gives them. Only where images are disjoint.
    void out_of(std::int64_t block, const Visit& visit);
    /// Appends the blocks whose ghosts may read the interior of `block`, some perhaps repeatedly.
    void add_readers_of(std::int64_t block, std::vector<std::int64_t>& readers);

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
    Box box_of(const Image& image) const;
    Box box_of(const Region& region) const;
    template <class VisitSlab>
    void for_each_slab(const Box& interior, VisitSlab&& visit) const;
    void visit_meeting(const Box& sender, const Box& reader, std::int64_t source_block,
                       std::int64_t destination_block, const Visit& visit);
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

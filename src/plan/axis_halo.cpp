// SPDX-License-Identifier: BSD-3-Clause
// Halos exchanged axis by axis, corners forwarded by later axes.
#include <utility>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "geometry/make_error.hpp"
#include "halo.hpp"

namespace datamover {
namespace {

Point only(const Point& width, int axis) {
    Point alone = Point::filled(width.dims(), 0);
    alone[axis] = width[axis];
    return alone;
}

/// Along the earlier axes a section that reaches an end of the block with the ghosts takes along
/// the ghosts beyond that end, which the sender has by then.
void widen(SectionCopy& section, const Region& block, const HaloExchange& widths, int axis) {
    Point below = Point::filled(block.dims(), 0), above = below;
    for (int d = 0; d < axis; ++d) {
        if (section.destination_region.lo()[d] == block.lo()[d]) below[d] = widths.lower[d];
        if (section.destination_region.hi()[d] == block.hi()[d]) above[d] = widths.upper[d];
    }
    section.source_region = section.source_region.grown(below, above);
    section.destination_region = section.destination_region.grown(below, above);
}

}  // namespace

MotionPlan axis_halo(const Layout& layout, const Point& lower, const Point& upper, int axis,
                     const Region& periodic, const std::vector<bool>& wraps) {
    // All of the exchange is checked, whatever this axis takes of it.
    const MotionPlan whole = halo(layout, lower, upper, periodic, wraps);
    if (axis < 0 || axis >= layout.dims())
        throw make_error(ErrorCode::out_of_range, "a halo along axis ", axis, "; it must be 0 to ",
                         layout.dims() - 1);
    const auto& widths = std::get<HaloExchange>(whole[0]);
    const FloorPlan& blocks = plan::boxes_for_halo(layout);
    MotionPlan plan(layout, layout);
    halo(layout, only(lower, axis), only(upper, axis), periodic, wraps)
        .for_each_section([&](SectionCopy section) {
            widen(section, blocks.region(section.destination_block), widths, axis);
            plan.add(std::move(section));
        });
    return plan;
}

}  // namespace datamover

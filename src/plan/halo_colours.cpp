// SPDX-License-Identifier: BSD-3-Clause
// Products of halo boxes with the points of one color.
#include "halo_colours.hpp"

#include <algorithm>
#include <vector>

#include "geometry/checked.hpp"

namespace datamover::plan {
namespace {

std::int64_t residue(std::int64_t value, std::int64_t colours) {
    const std::int64_t rest = value % colours;
    return rest < 0 ? rest + colours : rest;
}

}  // namespace

void for_each_colour_offset(const HaloExchange& exchange, const Point& lo, const Point& extent,
                            const std::function<void(const Point&)>& visit) {
    const std::int64_t colours = exchange.colours;
    const int last = lo.dims() - 1;
    // All offsets in all dimensions but the last; they decide the one in the last.
    Point starts = Point::filled(last + 1, 1);
    for (int d = 0; d < last; ++d) starts[d] = std::min(colours, extent[d]);
    Region::from_shape(starts).for_each([&](const Point& start) {
        std::int64_t sum = 0;
        for (int d = 0; d <= last; ++d) sum += residue(lo[d], colours) + start[d];
        Point offset = start;
        offset[last] = residue(exchange.colour - sum, colours);
        if (offset[last] < extent[last]) visit(offset);
    });
}

void for_each_coloured_product(const FloorPlan& floorplan, const HaloExchange& exchange,
                               const BlockPair& blocks, std::span<const PartAxis> box,
                               const VisitPiece& visit) {
    Point lo = floorplan.region(blocks.source_block).lo(), extent = lo;
    for (int d = 0; d < lo.dims(); ++d) {
        lo[d] += box[static_cast<std::size_t>(d)].start.source;
        extent[d] = box[static_cast<std::size_t>(d)].length;
    }
    std::vector<PartAxis> axes(box.size());
    for_each_colour_offset(exchange, lo, extent, [&](const Point& offset) {
        for (int d = 0; d < lo.dims(); ++d) {
            const PartAxis& a = box[static_cast<std::size_t>(d)];
            axes[static_cast<std::size_t>(d)] = {
                {a.start.source + offset[d], a.start.destination + offset[d]},
                geometry::divide_up(a.length - offset[d], exchange.colours),
                a.dim,
                nullptr,
                {exchange.colours, exchange.colours}};
        }
        visit(blocks, {axes});
    });
}

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Products of halo boxes with the points of one color.
#include "halo_colours.hpp"

#include <algorithm>
#include <memory>

#include "geometry/checked.hpp"

namespace datamover::plan {
namespace {

std::int64_t residue(std::int64_t value, std::int64_t colours) {
    const std::int64_t rest = value % colours;
    return rest < 0 ? rest + colours : rest;
}

/// `length` positions of either side, of which every step-th from `offset` on meets its like.
AxisTable every(std::int64_t step, std::int64_t offset, std::int64_t source,
                std::int64_t destination, std::int64_t length) {
    const std::int64_t count = geometry::divide_up(length - offset, step);
    if (count == 1) return AxisTable::interval(source + offset, destination + offset, 1);
    return AxisTable({AxisRun{source + offset, destination + offset, 1, count, step, step}});
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
                               const BlockPair& blocks, const BoxShape& box,
                               const std::function<void(ProductPiece&&)>& visit) {
    const std::int64_t interior =
        exchange.reversed ? blocks.destination_block : blocks.source_block;
    Point lo = floorplan.region(interior).lo(), extent = lo;
    for (int d = 0; d < box.dims; ++d) {
        lo[d] += box.axis[static_cast<std::size_t>(d)].source;
        extent[d] = box.axis[static_cast<std::size_t>(d)].length;
    }
    for_each_colour_offset(exchange, lo, extent, [&](const Point& offset) {
        ProductPiece piece{blocks, {}};
        for (int d = 0; d < box.dims; ++d) {
            const BoxAxis& a = box.axis[static_cast<std::size_t>(d)];
            const std::int64_t from = exchange.reversed ? a.destination : a.source;
            const std::int64_t to = exchange.reversed ? a.source : a.destination;
            piece.axes.push_back({std::make_shared<const AxisTable>(
                                      every(exchange.colours, offset[d], from, to, a.length)),
                                  d, d});
        }
        visit(std::move(piece));
    });
}

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Halo exchanges: valid arguments, and the sections they stand for.

#include "halo.hpp"

#include <algorithm>
#include <string>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "ghost_boxes.hpp"
#include "halo_colours.hpp"

namespace datamover {
namespace plan {
bool wraps(const HaloExchange& exchange, int d) {
    return !exchange.domain.empty() && static_cast<std::size_t>(d) < exchange.periodic.size() &&
           exchange.periodic[static_cast<std::size_t>(d)];
}

const FloorPlan& boxes_for_halo(const Layout& layout) {
    if (const FloorPlan* boxes = layout.boxes()) return *boxes;
    if (const BlockCyclic* grid = layout.block_cyclic()) {
        for (int d = 0; d < grid->dims(); ++d) {
            if (grid->holds_intervals(d)) continue;
            const std::string block = std::to_string(grid->block()[d]);
            throw make_error(ErrorCode::unsupported, "a halo of ", layout.describe(),
                             ": in dimension ", d, " a process holds several separate blocks of ",
                             block,
                             ", and one local array has no room for ghosts between them; use block "
                             "in that dimension, or a floor plan of tiles of ",
                             block, " dealt out cyclically, each with ghosts of its own");
        }
    }
    throw make_error(ErrorCode::unsupported, "a halo of ", layout.describe(),
                     ": it has no neighbouring points; a halo needs a floor "
                     "plan or a block-cyclic layout of block and * only");
}

std::vector<bool> wraps_of(const Region& periodic, int dims) {
    return std::vector<bool>(static_cast<std::size_t>(dims), periodic.dims() > 0);
}

Point period_of(const HaloExchange& exchange, int dims) {
    Point period = Point::filled(dims, 0);
    for (int d = 0; d < dims; ++d)
        if (wraps(exchange, d)) period[d] = exchange.domain.extent(d);
    return period;
}

Region periods_to_meet(const Region& moved, const Region& fixed, const Point& period) {
    if (moved.empty() || fixed.empty()) return Region::empty_region(fixed.dims());
    Point first = Point::filled(fixed.dims(), 0), end = first;
    for (int d = 0; d < fixed.dims(); ++d) {
        if (period[d] == 0) {
            end[d] = 1;
            continue;
        }
        first[d] = geometry::add(
            geometry::divide_down(geometry::subtract(fixed.lo()[d], moved.hi()[d]), period[d]), 1);
        end[d] = geometry::divide_up(geometry::subtract(fixed.hi()[d], moved.lo()[d]), period[d]);
    }
    return Region(first, end);
}

namespace {

void check_colour(const HaloExchange& exchange) {
    if (exchange.colours < 1 || exchange.colours > most_colours)
        throw make_error(ErrorCode::invalid_argument, "a halo of ", exchange.colours,
                         " colours; there must be 1 to ", most_colours);
    if (exchange.colour < 0 || exchange.colour >= exchange.colours)
        throw make_error(ErrorCode::invalid_argument, "colour ", exchange.colour, " of ",
                         exchange.colours, "; it must be 0 to ", exchange.colours - 1);
}

}  // namespace

void check_halo_exchange(const Region& blocks, const HaloExchange& exchange) {
    const int dims = blocks.dims();
    check_colour(exchange);
    if (exchange.lower.dims() != dims || exchange.upper.dims() != dims) {
        throw make_error(ErrorCode::mismatch, "halo widths ", exchange.lower, " and ",
                         exchange.upper, " for a layout of ", dims, " dimensions");
    }
    for (int d = 0; d < dims; ++d) {
        if (exchange.lower[d] < 0 || exchange.upper[d] < 0) {
            throw make_error(ErrorCode::invalid_argument, "halo widths ", exchange.lower, " and ",
                             exchange.upper, "; none may be negative");
        }
    }
    if (!exchange.domain.empty() && exchange.domain.dims() != dims) {
        throw make_error(ErrorCode::mismatch, "the periodic domain ", exchange.domain,
                         " for a floor plan of ", dims, " dimensions");
    }
    if (!exchange.periodic.empty() && static_cast<int>(exchange.periodic.size()) != dims) {
        throw make_error(ErrorCode::mismatch, exchange.periodic.size(),
                         " entries say which dimensions wrap around; the floor plan has ", dims);
    }
    const bool wanted = std::ranges::find(exchange.periodic, true) != exchange.periodic.end();
    const bool is_none = exchange.domain.dims() == 0;
    if (wanted && (is_none || (exchange.domain.empty() && !blocks.empty()))) {
        throw Error(ErrorCode::invalid_argument,
                    "a dimension is to wrap around, but the periodic domain holds no point: give "
                    "the region that wraps around");
    }
    for (int d = 0; d < dims; ++d) {
        if (!wraps(exchange, d) || blocks.extent(d) <= exchange.domain.extent(d)) continue;
        throw make_error(ErrorCode::invalid_argument, "the periodic domain ", exchange.domain,
                         " is shorter than the blocks, which span ", blocks, ", in dimension ", d,
                         ": two of their points would be one and the same; it must be at least ",
                         blocks.extent(d), " long there");
    }
}

void halo_sections_into(const FloorPlan& floorplan, const HaloExchange& exchange,
                        std::int64_t block, const VisitSection& visit) {
    GhostBoxes(floorplan, exchange)
        .into(block, [&](std::int64_t from, std::int64_t to, const BoxShape& box) {
            Point source = floorplan.region(from).lo(), destination = floorplan.region(to).lo();
            Point extent = source;
            for (int d = 0; d < box.dims; ++d) {
                source[d] += box.axis[d].source;
                destination[d] += box.axis[d].destination;
                extent[d] = box.axis[d].length;
            }
            const Region sent(source, source + extent), filled(destination, destination + extent);
            if (exchange.colours == 1) return visit({from, sent, to, filled, {}});
            const Point step = Point::filled(box.dims, exchange.colours);
            for_each_colour_offset(exchange, source, extent, [&](const Point& offset) {
                visit({from,
                       Region(source + offset, sent.hi()),
                       to,
                       Region(destination + offset, filled.hi()),
                       {},
                       step,
                       step});
            });
        });
}

std::vector<std::int64_t> halo_readers_of(const FloorPlan& floorplan, const HaloExchange& exchange,
                                          std::int64_t block) {
    std::vector<std::int64_t> readers;
    GhostBoxes(floorplan, exchange).add_readers_of(block, readers);
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    return readers;
}

}  // namespace plan

MotionPlan halo(const Layout& layout, const Point& lower, const Point& upper,
                const Region& periodic, const std::vector<bool>& wraps, bool corners,
                std::int64_t colours, std::int64_t colour) {
    HaloExchange exchange;
    exchange.lower = lower;
    exchange.upper = upper;
    exchange.domain = periodic;
    exchange.corners = corners;
    exchange.colours = colours;
    exchange.colour = colour;
    exchange.periodic = wraps;
    if (wraps.empty()) exchange.periodic = plan::wraps_of(periodic, layout.dims());
    MotionPlan result{layout, layout};
    result.add(std::move(exchange));
    return result;
}

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Which halo exchanges are possible, and which sections do they stand for?

#include "halo.hpp"

#include <algorithm>
#include <string>

#include "datamover/error.hpp"
#include "ghost_boxes.hpp"

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
            throw Error(ErrorCode::unsupported,
                        "a halo of " + layout.describe() + ": in dimension " + std::to_string(d) +
                            " a process holds several separate blocks of " + block +
                            ", and one local array has no room for ghosts between them; use block "
                            "in that dimension, or a floor plan of tiles of " +
                            block + " dealt out cyclically, each with ghosts of its own");
        }
    }
    throw Error(ErrorCode::unsupported, "a halo of " + layout.describe() +
                                            ": it has no neighbouring points; a halo needs a floor "
                                            "plan or a block-cyclic layout of block and * only");
}

void check_halo_exchange(const FloorPlan& floorplan, const HaloExchange& exchange) {
    const int dims = floorplan.dims();
    if (exchange.lower.dims() != dims || exchange.upper.dims() != dims) {
        throw Error(ErrorCode::mismatch, "halo widths " + exchange.lower.to_string() + " and " +
                                             exchange.upper.to_string() + " for a floor plan of " +
                                             std::to_string(dims) + " dimensions");
    }
    for (int d = 0; d < dims; ++d) {
        if (exchange.lower[d] < 0 || exchange.upper[d] < 0) {
            throw Error(ErrorCode::invalid_argument, "halo widths " + exchange.lower.to_string() +
                                                         " and " + exchange.upper.to_string() +
                                                         "; none may be negative");
        }
    }
    if (!exchange.domain.empty() && exchange.domain.dims() != dims) {
        throw Error(ErrorCode::mismatch, "the periodic domain " + exchange.domain.to_string() +
                                             " for a floor plan of " + std::to_string(dims) +
                                             " dimensions");
    }
    if (!exchange.periodic.empty() && static_cast<int>(exchange.periodic.size()) != dims) {
        throw Error(ErrorCode::mismatch,
                    std::to_string(exchange.periodic.size()) +
                        " entries say which dimensions wrap around; the floor plan has " +
                        std::to_string(dims));
    }
    const bool wanted = std::find(exchange.periodic.begin(), exchange.periodic.end(), true) !=
                        exchange.periodic.end();
    if (wanted && exchange.domain.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "a dimension is to wrap around, but the periodic domain is empty");
    }
    const Region blocks = floorplan.bounding_box();
    for (int d = 0; d < dims; ++d) {
        if (!wraps(exchange, d) || blocks.extent(d) <= exchange.domain.extent(d)) continue;
        throw Error(ErrorCode::invalid_argument,
                    "the periodic domain " + exchange.domain.to_string() +
                        " is shorter than the blocks, which span " + blocks.to_string() +
                        ", in dimension " + std::to_string(d) +
                        ": two of their points would be one and the same; it must be at least " +
                        std::to_string(blocks.extent(d)) + " long there");
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
            visit({from,
                   Region(source, source + extent),
                   to,
                   Region(destination, destination + extent),
                   {}});
        });
}

std::vector<std::int64_t> halo_readers_of(const FloorPlan& floorplan, const HaloExchange& exchange,
                                          std::int64_t block) {
    std::vector<std::int64_t> readers;
    GhostBoxes(floorplan, exchange).add_readers_of(block, readers);
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    return readers;
}

}  // namespace plan

MotionPlan halo(const Layout& layout, const Point& lower, const Point& upper,
                const Region& periodic, const std::vector<bool>& wraps, bool corners) {
    HaloExchange exchange;
    exchange.lower = lower;
    exchange.upper = upper;
    exchange.domain = periodic;
    exchange.corners = corners;
    exchange.periodic = wraps;
    if (wraps.empty()) {
        exchange.periodic.assign(static_cast<std::size_t>(layout.dims()), !periodic.empty());
    }
    MotionPlan result{layout, layout};
    result.add(std::move(exchange));
    return result;
}

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Floor plan of the blocks of a periodic box.
#pragma once

#include <vector>

#include "datamover/floor_plan.hpp"
#include "latency_faces.hpp"

namespace bench {

inline datamover::FloorPlan floor_plan_of(const BlockGrid& grid, int size) {
    std::vector<datamover::Region> regions;
    datamover::Map owners;
    for (std::int64_t b = 0; b < grid.num_blocks(); ++b) {
        const Index c = grid.coordinates(b);
        const datamover::Point lo{c[0] * grid.edge, c[1] * grid.edge, c[2] * grid.edge};
        regions.emplace_back(lo, lo + datamover::Point::filled(3, grid.edge));
        owners.push_back(grid.owner(b));
    }
    return datamover::FloorPlan(regions, owners, size);
}

}  // namespace bench

// SPDX-License-Identifier: BSD-3-Clause
// Layouts and plan of the library for a redistribution case.
#pragma once

#include <span>
#include <string>

#include "datamover/block_cyclic.hpp"
#include "datamover/motion_plan.hpp"
#include "redistribute_case.hpp"

namespace bench {

inline datamover::Point point_of(const Extents& e) {
    return datamover::Point(std::span<const std::int64_t>(e));
}

inline datamover::Layout layout_of(const Side& side, int processes) {
    std::string words;
    for (int d = 0; d < side.dims(); ++d) {
        const std::size_t at = Side::at(d);
        const bool whole = side.grid[at] == 1 && side.block[at] >= side.shape[at];
        words += (d > 0 ? ", " : "") +
                 (whole ? std::string("*") : "cyclic(" + std::to_string(side.block[at]) + ")");
    }
    datamover::BlockCyclicOptions options;
    options.grid = side.grid;
    options.first_process = side.first_process;
    return datamover::BlockCyclic(point_of(side.shape), "(" + words + ")", processes, options);
}

inline datamover::Region section_of(const Side& side, const Extents& extents) {
    const datamover::Point lo = point_of(side.section_begin);
    return datamover::Region(lo, lo + point_of(extents));
}

inline datamover::MotionPlan plan_of(const Case& c, int processes) {
    Extents destination_extents;
    for (const int a : c.axes) destination_extents.push_back(c.extent[Side::at(a)]);
    return datamover::redistribute(layout_of(c.source, processes), section_of(c.source, c.extent),
                                   layout_of(c.destination, processes),
                                   section_of(c.destination, destination_extents), c.axes);
}

}  // namespace bench

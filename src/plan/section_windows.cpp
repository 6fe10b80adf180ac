// SPDX-License-Identifier: BSD-3-Clause
// Windows of a redistributed section that a floor plan's blocks hold.
#include "section_windows.hpp"

#include <algorithm>

namespace datamover::plan {
namespace {

/// The part of t where a region of one side lies.
Window window_of(const Region& of_side, const SectionFrame& f, Side side) {
    const Region region = f.oriented(side, of_side);
    const Point& lo = f.lo(side);
    Window w{lo, lo};
    for (int k = 0; k < lo.dims(); ++k) {
        const int d = f.dim(side, k);
        w.lo[k] = std::max<std::int64_t>(region.lo()[d] - lo[k], 0);
        w.extent[k] =
            std::max<std::int64_t>(std::min(region.hi()[d] - lo[k], f.extent[k]) - w.lo[k], 0);
    }
    return w;
}

}  // namespace

std::vector<Window> windows_of(const FloorPlan& plan, const std::vector<std::int64_t>& blocks,
                               const SectionFrame& f, Side side) {
    std::vector<Window> windows;
    for (const std::int64_t block : blocks)
        windows.push_back(window_of(plan.region(block), f, side));
    return windows;
}

std::vector<Window> sending_windows(const Layout& source, std::int64_t block,
                                    const SectionFrame& f) {
    std::vector<Window> windows;
    if (const FloorPlan* fp = source.floor_plan()) {
        for (const Region& r : fp->exclusive_regions(block))
            windows.push_back(window_of(r, f, Side::source));
    } else {
        windows.push_back({Point::filled(f.extent.dims(), 0), f.extent});
    }
    return windows;
}

}  // namespace datamover::plan

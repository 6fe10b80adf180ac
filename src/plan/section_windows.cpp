// SPDX-License-Identifier: BSD-3-Clause
// Windows of a redistributed section that a floor plan's blocks hold.
#include "section_windows.hpp"

#include <algorithm>

namespace datamover::plan {
namespace {

/// The part of t where `region` (of the side whose lower corner per destination dimension is `lo`,
/// dimension k of t being dimension dims[k] of the region) lies.
Window window_of(const Region& region, const Point& lo, const std::vector<int>& dims,
                 const Point& extent) {
    Window w{lo, lo};
    for (int k = 0; k < lo.dims(); ++k) {
        const int d = dims[static_cast<std::size_t>(k)];
        w.lo[k] = std::max<std::int64_t>(region.lo()[d] - lo[k], 0);
        w.extent[k] =
            std::max<std::int64_t>(std::min(region.hi()[d] - lo[k], extent[k]) - w.lo[k], 0);
    }
    return w;
}

}  // namespace

std::vector<Window> windows_of(const FloorPlan& plan, const std::vector<std::int64_t>& blocks,
                               const Point& lo, const std::vector<int>& dims, const Point& extent) {
    std::vector<Window> windows;
    for (const std::int64_t block : blocks)
        windows.push_back(window_of(plan.region(block), lo, dims, extent));
    return windows;
}

std::vector<Window> sending_windows(const Layout& source, std::int64_t block,
                                    const SectionFrame& f) {
    std::vector<Window> windows;
    if (const FloorPlan* fp = source.floor_plan()) {
        for (const Region& r : fp->exclusive_regions(block))
            windows.push_back(window_of(r, f.source_lo, f.axes, f.extent));
    } else {
        windows.push_back({Point::filled(f.extent.dims(), 0), f.extent});
    }
    return windows;
}

}  // namespace datamover::plan

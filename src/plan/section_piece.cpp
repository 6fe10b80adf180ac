// SPDX-License-Identifier: BSD-3-Clause
// An explicit section copy in the local indices of its two blocks.
#include "section_piece.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "layout/bounds.hpp"

namespace datamover::plan {
namespace {

std::string named(const char* side, std::int64_t block, const Region& region) {
    return concat(side, " region ", region, " of block ", block);
}

/// A block's region in its local indices, where the block is a box.
Region local_box(const Layout& layout, std::int64_t block, const Region& region, const char* side) {
    if (const FloorPlan* fp = layout.floor_plan()) return region.shifted(-fp->region(block).lo());
    Point lo = region.lo(), hi = region.lo();
    const auto sets = layout.axis_sets(block);
    const bool box = std::ranges::all_of(
        sets, [](const AxisSet& s) { return 0 < s.size() && s.size() <= s.length; });
    if (box) {
        for (int d = 0; d < region.dims(); ++d) lo[d] = sets[static_cast<std::size_t>(d)].first;
        return region.shifted(-lo);
    }
    for (int d = 0; d < region.dims(); ++d) {
        const AxisSet& s = sets[static_cast<std::size_t>(d)];
        const std::int64_t first = s.local(region.lo()[d]), last = s.local(region.hi()[d] - 1);
        if (first < 0 || last - first != region.extent(d) - 1)
            throw Error(
                ErrorCode::out_of_range,
                named(side, block, region) + " is not held whole by that block-cyclic part");
        lo[d] = first;
        hi[d] = last + 1;
    }
    return {lo, hi};
}

void check_step(const Point& step, int dims, const char* side) {
    if (step.dims() == 0) return;
    if (step.dims() != dims)
        throw make_error(ErrorCode::mismatch, side, " step ", step, " for a layout of ", dims,
                         " dimensions");
    for (int d = 0; d < dims; ++d)
        if (step[d] < 1)
            throw make_error(ErrorCode::invalid_argument, side, " step ", step,
                             "; every step must be at least 1 (pass flip for descending indices)");
}

std::int64_t step_in(const Point& step, int d) {
    return step.dims() == 0 ? 1 : step[d];
}

/// The region without what lies behind the last index that takes part.
Region up_to_last(const Region& region, const Point& step) {
    if (step.dims() == 0 || region.empty()) return region;
    Point hi = region.hi();
    for (int d = 0; d < hi.dims(); ++d) hi[d] -= (region.extent(d) - 1) % step[d];
    return {region.lo(), hi};
}

/// `count` positions of either side, steps apart.
AxisTable strided_table(std::int64_t source, std::int64_t destination, std::int64_t count,
                        std::int64_t source_step, std::int64_t destination_step) {
    if (count == 1 || (source_step == 1 && destination_step == 1))
        return AxisTable::interval(source, destination, count);
    return AxisTable({AxisRun{source, destination, 1, count, source_step, destination_step}});
}

}  // namespace

bool has_steps(const SectionCopy& section) {
    return section.source_step.dims() > 0 || section.destination_step.dims() > 0;
}

void check_flip(const std::vector<bool>& flip, int dims) {
    if (!flip.empty() && static_cast<int>(flip.size()) != dims)
        throw make_error(ErrorCode::mismatch, "flip has ", flip.size(),
                         " entries; the destination layout has ", dims, " dimensions");
}

std::vector<bool> flips_in(std::vector<bool> flip, const Point& shape) {
    for (std::size_t k = 0; k < flip.size(); ++k)
        flip[k] = flip[k] && shape[static_cast<int>(k)] > 1;
    return std::ranges::find(flip, true) == flip.end() ? std::vector<bool>{} : flip;
}

Point strided_shape(const Region& region, const Point& step) {
    Point shape = region.shape();
    for (int d = 0; d < step.dims(); ++d) shape[d] = geometry::divide_up(shape[d], step[d]);
    return shape;
}

void check_region_inside(const Region& region, const Region& domain, const char* side) {
    if (region.dims() != domain.dims())
        throw make_error(ErrorCode::mismatch, side, " region ", region, " has ", region.dims(),
                         " dimensions, its layout ", domain.dims());
    if (!domain.contains(region))
        throw make_error(ErrorCode::out_of_range, side, " region ", region,
                         " is not inside its layout's domain ", domain);
}

void check_axes(const std::vector<int>& axes, int dims) {
    if (axes.empty()) return;
    std::vector<bool> seen(static_cast<std::size_t>(dims), false);
    bool right = static_cast<int>(axes.size()) == dims;
    for (const int a : axes) {
        right = right && a >= 0 && a < dims && !seen[static_cast<std::size_t>(a)];
        if (right) seen[static_cast<std::size_t>(a)] = true;
    }
    if (right) return;
    std::string text;
    for (const int a : axes) text += concat(text.empty() ? "" : ", ", a);
    throw make_error(ErrorCode::invalid_argument, "axes (", text, ") are not a permutation of 0..",
                     dims - 1);
}

std::vector<int> inverse_axes(const std::vector<int>& axes) {
    std::vector<int> inverse(axes.size());
    for (std::size_t k = 0; k < axes.size(); ++k)
        inverse[static_cast<std::size_t>(axes[k])] = static_cast<int>(k);
    return inverse;
}

Point permuted(const Point& point, const std::vector<int>& axes) {
    Point result = point;
    for (std::size_t k = 0; k < axes.size(); ++k) result[static_cast<int>(k)] = point[axes[k]];
    return result;
}

Region permuted(const Region& region, const std::vector<int>& axes) {
    if (axes.empty()) return region;
    return {permuted(region.lo(), axes), permuted(region.hi(), axes)};
}

std::vector<bool> permuted(const std::vector<bool>& flip, const std::vector<int>& axes) {
    std::vector<bool> result = flip;
    for (std::size_t k = 0; k < axes.size() && !flip.empty(); ++k)
        result[k] = flip[static_cast<std::size_t>(axes[k])];
    return result;
}

void check_section(const PlanLayouts& layouts, const SectionCopy& s) {
    const Layout &source = layouts.source(), &destination = layouts.destination();
    if (!source.has_products() || !destination.has_products())
        throw Error(ErrorCode::unsupported,
                    "section copies need blocks that are boxes, not index lists or flat ranges");
    layout::check_number("source block", s.source_block, source.num_blocks());
    layout::check_number("destination block", s.destination_block, destination.num_blocks());
    if (s.source_region.dims() != source.dims() ||
        s.destination_region.dims() != destination.dims())
        throw make_error(ErrorCode::mismatch, named("source", s.source_block, s.source_region),
                         " or ", named("destination", s.destination_block, s.destination_region),
                         " has not the dimensions of its layout");
    if (!s.axes.empty() && source.dims() != destination.dims())
        throw Error(ErrorCode::mismatch, "axes need layouts with equally many dimensions");
    check_axes(s.axes, source.dims());
    check_step(s.source_step, source.dims(), "source");
    check_step(s.destination_step, destination.dims(), "destination");
    check_flip(s.flip, destination.dims());
    const Point from = strided_shape(s.source_region, s.source_step);
    const Point to = strided_shape(s.destination_region, s.destination_step);
    const bool one_shape = !s.axes.empty() || has_steps(s) || !s.flip.empty();
    const bool same_shape = !one_shape || permuted(from, s.axes) == to;
    if (!same_shape || from.product() != to.product())
        throw make_error(ErrorCode::mismatch, named("source", s.source_block, s.source_region),
                         " and ", named("destination", s.destination_block, s.destination_region),
                         (!one_shape      ? " hold different numbers of points"
                          : !has_steps(s) ? " do not have the same shape (after axes)"
                                          : " hold " + from.to_string() + " and " + to.to_string() +
                                                " points in their steps; each dimension of the one "
                                                "(after axes) must hold as many as of the other"));
}

LocalSection local_section(const PlanLayouts& layouts, const SectionCopy& s) {
    return {local_box(layouts.source(), s.source_block, up_to_last(s.source_region, s.source_step),
                      "source"),
            local_box(layouts.destination(), s.destination_block,
                      up_to_last(s.destination_region, s.destination_step), "destination")};
}

ProductPiece LocalSection::product(const SectionCopy& section) const {
    ProductPiece piece{{section.source_block, section.destination_block}, {}};
    const Point shape = strided_shape(destination, section.destination_step);
    for (int k = 0; k < shape.dims(); ++k) {
        const auto i = static_cast<std::size_t>(k);
        const int d = section.axes.empty() ? k : section.axes[i];
        const bool flips = !section.flip.empty() && section.flip[i];
        piece.axes.push_back(
            {std::make_shared<const AxisTable>(strided_table(
                 flips ? 1 - source.hi()[d] : source.lo()[d], destination.lo()[k], shape[k],
                 step_in(section.source_step, d), step_in(section.destination_step, k))),
             d, k, flips ? -1 : 1});
    }
    return piece;
}

bool LocalSection::is_box(const SectionCopy& section) const {
    return !section.axes.empty() || source.shape() == destination.shape();
}

BoxShape LocalSection::box(const SectionCopy& section) const {
    BoxShape box;
    box.dims = destination.dims();
    for (int k = 0; k < box.dims; ++k) {
        const int d = section.axes.empty() ? k : section.axes[static_cast<std::size_t>(k)];
        box.axis[static_cast<std::size_t>(k)] = {source.lo()[d], destination.lo()[k],
                                                 destination.extent(k), d, k};
    }
    return box;
}

// Windows of a redistributed section that a floor plan's blocks hold.

namespace {

/// The part of t where a region of one side lies.
Region window_of(const Region& of_side, const SectionFrame& f, Side side) {
    const Region region = f.oriented(side, of_side);
    const Point& first = f.lo(side);
    Point lo = first, hi = first;
    for (int k = 0; k < first.dims(); ++k) {
        lo[k] = region.lo()[f.dim(side, k)] - first[k];
        hi[k] = region.hi()[f.dim(side, k)] - first[k];
    }
    return Region(lo, hi).intersected(f.whole());
}

}  // namespace

std::vector<Region> windows_of(const FloorPlan& plan, const std::vector<std::int64_t>& blocks,
                               const SectionFrame& f, Side side) {
    std::vector<Region> windows;
    for (const std::int64_t block : blocks)
        windows.push_back(window_of(plan.region(block), f, side));
    return windows;
}

std::vector<Region> sending_windows(const Layout& source, std::int64_t block,
                                    const SectionFrame& f) {
    std::vector<Region> windows;
    if (const FloorPlan* fp = source.floor_plan()) {
        for (const Region& r : fp->exclusive_regions(block))
            windows.push_back(window_of(r, f, Side::source));
    } else {
        windows.push_back(f.whole());
    }
    return windows;
}

Region bounds_in_other(const SectionBlock& block, const SectionFrame& f, const Region& w) {
    const Side there = other(block.side);
    Point lo = w.lo(), hi = w.lo();
    for (int k = 0; k < w.dims(); ++k) {
        const AxisSet& s = block.sets[static_cast<std::size_t>(k)];
        const int d = f.dim(there, k);
        lo[d] = f.lo(there)[k] + std::clamp(s.lower() - block.lo[k], w.lo()[k], w.hi()[k]);
        hi[d] = f.lo(there)[k] + std::clamp(s.upper() - block.lo[k], w.lo()[k], w.hi()[k]);
    }
    return {lo, hi};
}

}  // namespace datamover::plan

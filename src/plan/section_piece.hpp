// SPDX-License-Identifier: BSD-3-Clause
// An explicit section copy in the local indices of its two blocks, and windows of sections.
#pragma once

#include <cstdint>
#include <vector>

#include "coverage.hpp"
#include "datamover/motion_plan.hpp"

namespace datamover::plan {

/// The two regions of a section copy in the local indices of their blocks.
struct LocalSection {
    Region source, destination;

    /// Whether they are one box, seen from both blocks; else they only hold equally many points.
    bool is_box(const SectionCopy& section) const;
    BoxShape box(const SectionCopy& section) const;
    /// Of a section with steps or flips, which is one product.
    ProductPiece product(const SectionCopy& section) const;
};

/// Regions of blocks that are boxes may reach into ghosts (local indices outside the block's
/// extents); those of other block-cyclic blocks must be held whole. Throws out_of_range where they
/// are not, unsupported for index lists.
LocalSection local_section(const PlanLayouts& layouts, const SectionCopy& section);

/// Checks blocks, dimensions, axes and numbers of points. Throws out_of_range, mismatch,
/// invalid_argument.
void check_section(const PlanLayouts& layouts, const SectionCopy& section);

/// Whether only every so-many-th index takes part.
bool has_steps(const SectionCopy& section);

/// Throws mismatch unless `flip` is empty or has one entry for each dimension.
void check_flip(const std::vector<bool>& flip, int dims);

/// The flips that change something in a region of this shape; empty if none does.
std::vector<bool> flips_in(std::vector<bool> flip, const Point& shape);

/// How many indices of a region take part, per dimension; a step without dimensions is 1.
Point strided_shape(const Region& region, const Point& step);

/// Throws mismatch or out_of_range unless a region lies in its layout's domain; `side` is
/// "source".
void check_region_inside(const Region& region, const Region& domain, const char* side);

/// Throws invalid_argument unless `axes` is empty or a permutation of 0 … dims-1.
void check_axes(const std::vector<int>& axes, int dims);

/// The axes that undo `axes`.
std::vector<int> inverse_axes(const std::vector<int>& axes);

/// A point, such as a shape, a region or flips after the dimensions have been permuted (empty axes:
/// unchanged).
Point permuted(const Point& point, const std::vector<int>& axes);
Region permuted(const Region& region, const std::vector<int>& axes);
std::vector<bool> permuted(const std::vector<bool>& flip, const std::vector<int>& axes);

// Windows of a redistributed section that a floor plan's blocks hold.

/// Where the blocks of one side's layout lie.
std::vector<Region> windows_of(const FloorPlan& plan, const std::vector<std::int64_t>& blocks,
                               const SectionFrame& f, Side side);

/// Where a source block sends from: everywhere, or where no lower-numbered block of a floor plan
/// holds the same points.
std::vector<Region> sending_windows(const Layout& source, std::int64_t block,
                                    const SectionFrame& f);

/// The box, on the other side, around what a block holds in a window.
Region bounds_in_other(const SectionBlock& block, const SectionFrame& f, const Region& w);

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Coverage: every element that a block needs is held by some process.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/side.hpp"
#include "plan/redistribution.hpp"

namespace datamover::plan {

/// What of one block of a side is a product of sets, and where the section begins in them.
struct SectionBlock {
    /// How many elements the block holds in a window.
    std::int64_t elems_in(const Region& window) const;
    /// Sets `t` to the lowest point of a box at which the block holds something, if there is one.
    bool lowest_in(const Region& box, Point& t) const;

    const Layout& layout;
    std::int64_t block;
    Side side;
    std::vector<AxisSet> sets;  ///< per dimension of t, oriented
    Point lo;                   ///< per dimension of t
};

/// Throws mismatch, naming process and index, where the block holds something in the window that is
/// in none of the boxes `held` by the other side. The cost follows the boxes.
void refuse_missing(const SectionBlock& block, const SectionFrame& frame, const Region& window,
                    const std::vector<Region>& held);

/// Refuses a redistribution: `block` of `layout`, on that side, needs or has to bring back an
/// element, and nobody on the other side holds it, whose index there is given.
[[noreturn]] void refuse_missing(const Layout& layout, std::int64_t block, Side side,
                                 const Point& index);

/// Refuses a redistribution between all of two layouts: names an index that the destination, which
/// is no index list, holds outside the domain `held` of the source, whose dimensions have been
/// permuted by `axes`.
[[noreturn]] void refuse_beyond(const Layout& destination, const Region& held,
                                const std::vector<int>& axes);

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Coverage: every element that a block needs is held by some process.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/side.hpp"
#include "plan/redistribution.hpp"

namespace datamover::plan {

/// A box of the shared coordinate t of a redistribution.
struct Window {
    Point lo, extent;
};

/// One block of one side, as a product of sets, and where the section begins in them.
struct SectionBlock {
    SectionBlock(const Layout& layout, std::int64_t block, Side side, const SectionFrame& frame);
    /// What of a block is the product of these sets, per dimension of t.
    SectionBlock(const Layout& layout, std::int64_t block, Side side, const SectionFrame& frame,
                 std::vector<AxisSet> sets);

    /// How many elements the block holds in a window.
    std::int64_t elems_in(const Window& window) const;
    /// Sets `t` to the lowest point of a box at which the block holds something, if there is one.
    bool lowest_in(const Region& box, Point& t) const;

    const Layout& layout;
    std::int64_t block;
    Side side;
    std::vector<AxisSet> sets;  ///< per dimension of t
    Point lo;                   ///< per dimension of t
};

/// Throws mismatch, naming process and index, where the block holds something in one of the windows
/// that is in none of the boxes `held` by the other side. The cost follows windows and boxes.
void refuse_missing(const SectionBlock& block, const SectionFrame& frame,
                    const std::vector<Window>& windows, const std::vector<Window>& held);

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

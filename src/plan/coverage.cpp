// SPDX-License-Identifier: BSD-3-Clause
// Coverage: every element that a block needs is held by some process.
#include "coverage.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "geometry/make_error.hpp"
#include "section_piece.hpp"

namespace datamover::plan {
namespace {

constexpr const char* remedy =
    "; pass partial=True to redistribute to leave such elements unchanged";

}  // namespace

std::int64_t SectionBlock::elems_in(const Region& window) const {
    Point counts = lo;
    for (int k = 0; k < counts.dims(); ++k)
        counts[k] = elems_between(sets[static_cast<std::size_t>(k)], lo[k] + window.lo()[k],
                                  lo[k] + window.hi()[k]);
    return counts.product();
}

bool SectionBlock::lowest_in(const Region& box, Point& t) const {
    for (int k = 0; k < box.dims(); ++k) {
        const AxisSet& set = sets[static_cast<std::size_t>(k)];
        const std::int64_t index = set.next(lo[k] + box.lo()[k]);
        if (index == AxisSet::none || index - lo[k] >= box.hi()[k]) return false;
        t[k] = index - lo[k];
    }
    return true;
}

void refuse_missing(const SectionBlock& block, const SectionFrame& frame, const Region& window,
                    const std::vector<Region>& held) {
    Point t = frame.extent;
    for (const Region& free : subtract_all(window, held))
        if (block.lowest_in(free, t))
            refuse_missing(block.layout, block.block, block.side,
                           frame.index(other(block.side), t));
}

void refuse_missing(const Layout& layout, std::int64_t block, Side side, const Point& index) {
    const std::string other_side = side_name(other(side));
    throw make_error(ErrorCode::mismatch, "process ", layout.owner(block),
                     side == Side::destination ? " needs index " : " is to bring back index ",
                     index, " of the ", other_side, side == Side::destination ? " for" : " from",
                     " its block ", block, ", and no block of the ", other_side, " holds it",
                     remedy);
}

void refuse_beyond(const Layout& destination, const Region& held, const std::vector<int>& axes) {
    const auto beyond = destination.domain().subtracted(held);
    Point index = beyond.front().lo();
    if (const FloorPlan* fp = destination.floor_plan())
        // Blocks touch each side of their bounding box.
        for (const Region& part : beyond)
            if (const auto blocks = fp->find(part); !blocks.empty()) {
                index = fp->region(blocks.front()).intersected(part).lo();
                break;
            }
    const std::vector<int> back = inverse_axes(axes);
    const bool may_transpose = held.dims() > 1 && std::ranges::is_sorted(axes);
    throw make_error(ErrorCode::mismatch, "the destination needs index ", permuted(index, back),
                     " of the source, whose blocks are within ", permuted(held, back),
                     may_transpose ? "; for a transpose, pass axes=" : "", remedy);
}

}  // namespace datamover::plan

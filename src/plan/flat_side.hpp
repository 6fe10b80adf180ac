// SPDX-License-Identifier: BSD-3-Clause
// The flat side of a redistribution, seen from the other side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "flat_runs.hpp"
#include "geometry/checked.hpp"
#include "redistribution.hpp"
#include "section_piece.hpp"

namespace datamover::plan {

/// A side of a redistribution that is flat, and what of the other one belongs to it.
class FlatSide {
public:
    FlatSide(const Layout& layout, const Redistribution& term, const SectionFrame& frame, Side side)
        : layout(layout),
          flat(*layout.flat_cyclic()),
          side(side),
          region(side == Side::source ? term.source_region : term.destination_region),
          frame_(frame) {}

    /// The dimension of the flat layout's array, and of the other one, for dimension k of t.
    int flat_dim(int k) const { return frame_.dim(side, k); }
    int other_dim(int k) const { return frame_.dim(other(side), k); }
    std::int64_t flat_lo(int k) const { return frame_.lo(side)[k]; }
    std::int64_t other_lo(int k) const { return frame_.lo(other(side))[k]; }
    Window whole() const { return {Point::filled(frame_.extent.dims(), 0), frame_.extent}; }

    const FlatAxis& axis(const FlatBox& box, int k) const {
        return box.axis[static_cast<std::size_t>(flat_dim(k))];
    }

    /// What `box` shares with a set along dimension k of t, the box's positions being destinations.
    AxisTable table(const FlatBox& box, const AxisSet& set, const Window& w, int k) const {
        const FlatAxis& along = axis(box, k);
        const AxisTable numbers =
            intersect(set, other_lo(k) + w.lo[k], along.set, flat_lo(k) + w.lo[k], w.extent[k]);
        if (numbers.empty()) return numbers;
        const AxisTable positions = along.in_block(numbers);
        return k == 0 ? positions.shifted(0, box.position) : positions;
    }

    PieceAxis piece_axis(AxisTable table, int k) const {
        if (side == Side::source)
            return {std::make_shared<const AxisTable>(table.reversed()), 0, other_dim(k)};
        return {std::make_shared<const AxisTable>(std::move(table)), other_dim(k), 0};
    }

    BlockPair blocks(std::int64_t flat_block, std::int64_t other_block) const {
        if (side == Side::source) return {flat_block, other_block};
        return {other_block, flat_block};
    }

    /// A box's part of a block, for questions about what is missing.
    SectionBlock section_block(const FlatBox& box, std::int64_t block) const {
        std::vector<AxisSet> sets;
        for (int k = 0; k < frame_.extent.dims(); ++k) sets.push_back(axis(box, k).set);
        return {layout, block, side, frame_, std::move(sets)};
    }

    const Layout& layout;
    const FlatCyclic& flat;
    const Side side;
    const Region region;  ///< of the flat layout's array

private:
    const SectionFrame& frame_;
};

/// Whether two sets may have an index in common: false only where they have none.
inline bool may_meet(const AxisSet& a, const AxisSet& b) {
    const std::int64_t lo = std::max(a.first, b.first), hi = std::min(a.end, b.end);
    if (lo >= hi) return false;
    const auto single = [](const AxisSet& s) { return s.end - s.first <= s.length; };
    const auto first_from = [](const AxisSet& s, std::int64_t index) {
        const std::int64_t into = (index - s.first) % s.period;
        return into < s.length ? index : index + (s.period - into);
    };
    if (single(a) || single(b)) return first_from(single(a) ? b : a, lo) < hi;
    // Whatever the numbers of their blocks, these lie apart by the same rest.
    const std::int64_t common = std::gcd(a.period, b.period);
    const std::int64_t apart = ((b.first - a.first) % common + common) % common;
    return apart < a.length || common - apart < b.length;
}

/// The sets of a block, per dimension of the flat side's array and in its indices.
inline std::vector<AxisSet> sets_in_flat(const std::vector<AxisSet>& sets, const FlatSide& side,
                                         int dims) {
    std::vector<AxisSet> in_flat(static_cast<std::size_t>(dims));
    for (int k = 0; k < dims; ++k) {
        AxisSet set = sets[static_cast<std::size_t>(side.other_dim(k))];
        const auto in_array = [&](std::int64_t index) {
            return geometry::add(geometry::subtract(index, side.other_lo(k)), side.flat_lo(k));
        };
        set.first = in_array(set.first);
        set.end = std::min(in_array(set.end), side.region.hi()[side.flat_dim(k)]);
        in_flat[static_cast<std::size_t>(side.flat_dim(k))] = set;
    }
    return in_flat;
}

/// What a block that is a product of sets wants of the flat side's array.
inline WantedIndices wanted_by(const std::vector<AxisSet>& sets, const FlatSide& side, int dims) {
    return [in_flat = sets_in_flat(sets, side, dims)](int d, const AxisSet& set) {
        return may_meet(in_flat[static_cast<std::size_t>(d)], set);
    };
}

}  // namespace datamover::plan

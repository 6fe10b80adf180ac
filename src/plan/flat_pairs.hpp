// SPDX-License-Identifier: BSD-3-Clause
// Pieces between two flat layouts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "flat_pieces.hpp"

namespace datamover::plan {

/// Both sides are flat.
class FlatPairs {
public:
    FlatPairs(const Layout& source, const Layout& destination, const Redistribution& term,
              PieceVisitor& visitor)
        : f_(term),
          source_(source, term, f_, Side::source),
          destination_(destination, term, f_, Side::destination),
          from_(source_, destination, f_, visitor),
          to_(destination_, source, f_, visitor) {
        one_order_ =
            source.domain() == destination.domain() && term.source_region == source.domain() &&
            term.destination_region == destination.domain() && std::ranges::is_sorted(f_.axes);
        by_runs_ = !one_order_ && runs_pay(source_, destination_);
    }

    void from_source(std::int64_t block) {
        const auto own = by_boxes() ? from_.boxes_of(block) : std::vector<FlatBox>{};
        for (std::int64_t peer = 0; peer < destination_.flat.num_filled_blocks(); ++peer) {
            from_.work().step();
            if (by_boxes())
                visit_boxes({block, peer}, own, to_.boxes_of(peer));
            else
                visit_ranges({block, peer});
        }
    }

    void into_destination(std::int64_t block) {
        const auto own = by_boxes() ? to_.boxes_of(block) : std::vector<FlatBox>{};
        for (std::int64_t peer = 0; peer < source_.flat.num_filled_blocks(); ++peer) {
            from_.work().step();
            if (by_boxes())
                visit_boxes({peer, block}, from_.boxes_of(peer), own);
            else
                visit_ranges({peer, block});
        }
    }

private:
    bool by_boxes() const { return !one_order_ && !by_runs_; }

    /// Whether pairs of boxes would be many, or take longer than going through all elements of a
    /// block, which working out its runs may come to.
    static bool runs_pay(const FlatSide& source, const FlatSide& destination) {
        const FlatCounts from = count_flat_boxes(source.flat, source.region);
        const FlatCounts to = count_flat_boxes(destination.flat, destination.region);
        constexpr std::int64_t few_pairs = 256, many_pairs = std::int64_t{1} << 16;
        constexpr std::int64_t elems_for_a_pair = 64;
        const std::int64_t pairs = geometry::bounded_multiply(from.boxes, to.boxes);
        const std::int64_t elems =
            source.region.size() / std::max<std::int64_t>(source.flat.num_filled_blocks(), 1);
        if (pairs <= few_pairs || from.pieces_of_rows > FlatWork::most_rows ||
            to.pieces_of_rows > FlatWork::most_rows)
            return false;
        const std::int64_t blocks =
            std::max(source.flat.num_filled_blocks(), destination.flat.num_filled_blocks());
        if (geometry::bounded_multiply(elems, blocks) > FlatWork::most_rows)
            return pairs > FlatWork::most_steps;  // where boxes are refused
        return elems / elems_for_a_pair <= pairs || pairs > many_pairs;
    }

    void visit_ranges(const BlockPair& blocks) {
        if (one_order_)
            visit_one_line(blocks);
        else
            from_.visit(blocks, runs_between(blocks));
    }

    /// The destination's array is walked by the indices of the source's.
    FlatRuns runs_between(const BlockPair& blocks) const {
        const Point& shape = destination_.flat.shape();
        OtherRanges to{destination_.flat.flat_set(blocks.destination_block), 0, {}, {}};
        to.steps.resize(static_cast<std::size_t>(shape.dims()));
        to.lo.resize(to.steps.size());
        std::vector<HeldAxis> axes(to.steps.size());
        std::int64_t step = 1;
        for (int k = shape.dims() - 1; k >= 0; --k) {
            const auto d = static_cast<std::size_t>(source_.flat_dim(k));
            const std::int64_t lo = source_.flat_lo(k), hi = lo + f_.extent[k];
            axes[d] = {AxisSet::interval(lo, hi), lo, hi, 0};
            to.steps[d] = step;
            to.lo[d] = lo;
            to.first += destination_.flat_lo(k) * step;
            step *= shape[k];
        }
        return {source_.flat, blocks.source_block, std::move(axes), std::move(to)};
    }

    /// Both arrays are flattened alike: it is one dimension.
    void visit_one_line(const BlockPair& blocks) {
        AxisTable table = intersect(source_.flat.flat_set(blocks.source_block), 0,
                                    destination_.flat.flat_set(blocks.destination_block), 0,
                                    source_.flat.elems());
        if (table.empty()) return;
        from_.visit(blocks, {{std::make_shared<const AxisTable>(std::move(table)), 0, 0}});
    }

    void visit_boxes(const BlockPair& blocks, const std::vector<FlatBox>& sent,
                     const std::vector<FlatBox>& received) {
        for (const FlatBox& from : sent)
            for (const FlatBox& to : received) {
                from_.work().step();
                std::vector<PieceAxis> axes = axes_between(from, to);
                if (!axes.empty()) from_.visit(blocks, std::move(axes));
            }
    }

    /// None where the boxes do not meet.
    std::vector<PieceAxis> axes_between(const FlatBox& from, const FlatBox& to) const {
        std::vector<PieceAxis> axes;
        for (int k = 0; k < f_.extent.dims(); ++k) {
            const AxisTable into =
                destination_.table(to, source_.axis(from, k).set, destination_.whole(), k);
            if (into.empty()) return {};
            AxisTable both = source_.axis(from, k).in_block(into.reversed()).reversed();
            if (k == 0) both = both.shifted(from.position, 0);
            axes.push_back({std::make_shared<const AxisTable>(std::move(both)), 0, 0});
        }
        return axes;
    }

    SectionFrame f_;
    FlatSide source_, destination_;
    FlatPieces from_, to_;
    bool one_order_ = false, by_runs_ = false;
};

}  // namespace datamover::plan

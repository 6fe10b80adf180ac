// SPDX-License-Identifier: BSD-3-Clause
// Pieces between a flat layout and other layouts.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "coverage.hpp"
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

    /// A box's part of a block.
    SectionBlock section_block(const FlatBox& box, std::int64_t block) const {
        std::vector<AxisSet> sets;
        for (int k = 0; k < frame_.extent.dims(); ++k) sets.push_back(axis(box, k).set);
        return {layout, block, side, std::move(sets), frame_.lo(side)};
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
    if (is_interval(a) || is_interval(b)) return (is_interval(a) ? b : a).next(lo) < hi;
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

inline bool any_is_wanted(int, const AxisSet&) {
    return true;
}

/// Whether boxes of ranges would be many of which each comes again only a few times: then the runs
/// themselves take less memory and time. Never where their number would be beyond all bounds; and
/// where going through them once for each of the `blocks` that may be met is, only where boxes are
/// refused.
inline bool runs_pay(const FlatCounts& counts, std::int64_t blocks) {
    constexpr std::int64_t few_boxes = 64, few_repetitions = 16, many_boxes = std::int64_t{1} << 16;
    constexpr std::int64_t steps_of_a_piece = 3;
    if (counts.boxes <= few_boxes || counts.pieces_of_rows > FlatWork::most_rows) return false;
    const std::int64_t steps =
        geometry::bounded_multiply(steps_of_a_piece * counts.pieces_of_rows, blocks);
    if (steps > FlatWork::most_rows) return counts.boxes > FlatWork::most_pieces;
    return counts.pieces_of_rows / few_repetitions <= counts.boxes || counts.boxes > many_boxes;
}
/// The blocks of a layout, of the first replica.
inline std::int64_t blocks_of(const Layout& layout) {
    if (const BlockCyclic* grid = layout.block_cyclic())
        return grid->num_blocks() / grid->replicas();
    return layout.num_blocks();
}

/// Keeps the pieces of one side of one redistribution.
class FlatPieces {
public:
    FlatPieces(const FlatSide& side, const Layout& other_side, const SectionFrame& frame,
               PieceVisitor& visitor)
        : side_(side),
          other_(other_side),
          f_(frame),
          by_runs_(runs_pay(count_flat_boxes(side.flat, side.region),
                            std::max(side.flat.num_filled_blocks(), blocks_of(other_side)))),
          work_(side.flat),
          visitor_(visitor) {}

    /// A flat block and the blocks of a block-cyclic layout.
    void with_grid(const BlockOfTerm& own, const BlockCyclic& grid) {
        const auto visit_replicas = [&](std::int64_t first, const auto& content) {
            own.for_each_replica(grid, first,
                                 [&](const BlockPair& blocks) { visit(blocks, content); });
        };
        if (by_runs_) return for_each_by_runs(own.block, visit_replicas);
        for_each_box(own.block, any_is_wanted, [&](const FlatBox& box) {
            match_grid(
                grid, f_, other(side_.side), [&](int k) { return grid_peers(box, grid, k); },
                visit_replicas);
        });
    }

    /// A flat block and the blocks of a floor plan. Refuses what is missing there if it may not be.
    void with_boxes(const BlockOfTerm& own, const FloorPlan& boxes) {
        std::int64_t needed = 0;
        elems_ = 0;
        if (by_runs_) {
            for_each_by_runs(own.block, [&](std::int64_t block, RangesPiece&& piece) {
                visit(own.pair_with(block), std::move(piece));
            });
            if (own.needs_all()) needed = elems_in_section(own.block);
        } else {
            for_each_box(own.block, any_is_wanted, [&](const FlatBox& box) {
                const SectionBlock part = side_.section_block(box, own.block);
                needed += part.elems_in(whole_);
                for (const std::int64_t block : boxes.find(bounds_in_other(part, f_, whole_)))
                    for (const Window& w : windows_at(block))
                        visit_pair(box, other_.axis_sets(block), own.pair_with(block), w);
            });
        }
        if (!own.needs_all() || own.finds_all(boxes, elems_, needed)) return;
        if (by_runs_) return refuse_what_is_missing(own.block, boxes);
        const auto held =
            windows_of(boxes, boxes.find(boxes.bounding_box()), f_, other(side_.side));
        for_each_box(own.block, any_is_wanted, [&](const FlatBox& box) {
            refuse_missing(side_.section_block(box, own.block), f_, whole_, held);
        });
    }

    /// A block that is a product of sets and the flat blocks that it meets.
    void of_product(const BlockOfTerm& own) {
        const auto sets = other_.axis_sets(own.block);
        for (const AxisSet& set : sets)
            if (set.size() == 0) return;
        const WantedIndices wanted = wanted_by(sets, side_, dims());
        for (std::int64_t flat = 0; flat < side_.flat.num_filled_blocks(); ++flat) {
            work_.step();
            if (!own.meets(flat)) continue;
            const BlockPair blocks = own.pair_with(flat);
            if (by_runs_) {
                for (const Window& w : windows_at(own.block))
                    visit(blocks, runs_with(sets, flat, w));
                continue;
            }
            for_each_box(flat, wanted, [&](const FlatBox& box) {
                for (const Window& w : windows_at(own.block)) visit_pair(box, sets, blocks, w);
            });
        }
    }

    std::vector<FlatBox> boxes_of(std::int64_t flat_block) {
        std::vector<FlatBox> boxes;
        for_each_box(flat_block, any_is_wanted, [&](const FlatBox& box) {
            work_.piece();
            boxes.push_back(box);
        });
        return boxes;
    }

    void visit(const BlockPair& blocks, std::vector<PieceAxis> axes) {
        work_.piece();
        ProductPiece piece{blocks, std::move(axes)};
        elems_ += piece.size();
        visitor_.visit(std::move(piece));
    }

    /// All runs between two blocks, if there are any.
    void visit(const BlockPair& blocks, FlatRuns&& runs) {
        visit(blocks, counted(std::move(runs)));
    }
    void visit(const BlockPair& blocks, RangesPiece piece) {
        if (piece.elems == 0) return;
        static_cast<BlockPair&>(piece) = blocks;
        elems_ += piece.elems;
        visitor_.visit(std::move(piece));
    }

    FlatWork& work() { return work_; }

private:
    int dims() const { return f_.extent.dims(); }

    template <class Visit>
    void for_each_box(std::int64_t flat_block, const WantedIndices& wanted, Visit&& visit) {
        for_each_flat_box(side_.flat, flat_block, side_.region, wanted, work_, visit);
    }

    std::vector<AxisPeer> grid_peers(const FlatBox& box, const BlockCyclic& grid, int k) const {
        std::vector<AxisPeer> peers;
        const int d = side_.other_dim(k);
        for (const std::int64_t c : peer_coordinates(side_.axis(box, k).set, side_.flat_lo(k), grid,
                                                     d, side_.other_lo(k), f_.extent[k])) {
            AxisTable table = side_.table(box, grid.axis_set(d, c), whole_, k);
            if (!table.empty()) peers.push_back({c, side_.piece_axis(std::move(table), k)});
        }
        return peers;
    }

    std::vector<Window> windows_at(std::int64_t other_block) const {
        if (side_.side == Side::destination) return sending_windows(other_, other_block, f_);
        return {whole_};
    }

    /// Between which blocks is said later.
    RangesPiece counted(FlatRuns&& runs) {
        RangesPiece piece;
        piece.runs = std::make_shared<const FlatRuns>(std::move(runs));
        piece.flat_side = side_.side;
        piece.end = piece.runs->positions();
        const auto count = [&](const FlatRun& run) {
            piece.elems += run.length;
            piece.count += run.unbroken();
        };
        piece.runs->for_each(0, piece.end, count, &work_);
        return piece;
    }

    /// The runs between a flat block and a product of sets, in a window.
    FlatRuns runs_with(const std::vector<AxisSet>& sets, std::int64_t flat_block, const Window& w) {
        const std::vector<AxisSet> in_flat = sets_in_flat(sets, side_, dims());
        std::vector<HeldAxis> axes(in_flat.size());
        for (int k = 0; k < dims(); ++k) {
            const auto d = static_cast<std::size_t>(side_.flat_dim(k));
            const std::int64_t lo = side_.flat_lo(k) + w.lo[k];
            axes[d] = {in_flat[d], lo, lo + w.extent[k], side_.other_dim(k)};
        }
        return {side_.flat, flat_block, std::move(axes)};
    }

    /// Calls visit(block, RangesPiece) for all blocks of the other side, of its first replica.
    template <class Visit>
    void for_each_by_runs(std::int64_t flat_block, Visit&& visit) {
        for (std::int64_t block = 0; block < blocks_of(other_); ++block) {
            work_.step();
            const auto sets = other_.axis_sets(block);
            if (std::ranges::any_of(sets, [](const AxisSet& s) { return !s.size(); })) continue;
            for (const Window& w : windows_at(block))
                visit(block, counted(runs_with(sets, flat_block, w)));
        }
    }

    std::int64_t elems_in_section(std::int64_t flat_block) {
        std::vector<AxisSet> sets(static_cast<std::size_t>(dims()));
        for (int k = 0; k < dims(); ++k)
            sets[static_cast<std::size_t>(side_.other_dim(k))] =
                AxisSet::interval(side_.other_lo(k), side_.other_lo(k) + f_.extent[k]);
        return counted(runs_with(sets, flat_block, whole_)).elems;
    }

    /// Throws where the flat block has an element in the section that no box holds.
    void refuse_what_is_missing(std::int64_t flat_block, const FloorPlan& fp) {
        std::vector<Region> held;
        for (const Window& w : windows_of(fp, fp.find(fp.bounding_box()), f_, other(side_.side)))
            held.push_back({w.lo, w.lo + w.extent});
        for (const Region& free : subtract_all({whole_.lo, whole_.lo + whole_.extent}, held)) {
            std::vector<AxisSet> sets(static_cast<std::size_t>(dims()));
            for (int k = 0; k < dims(); ++k)
                sets[static_cast<std::size_t>(side_.other_dim(k))] = AxisSet::interval(
                    side_.other_lo(k) + free.lo()[k], side_.other_lo(k) + free.hi()[k]);
            const FlatRuns runs = runs_with(sets, flat_block, {free.lo(), free.shape()});
            runs.for_each(
                0, runs.positions(),
                [&](const FlatRun& run) {
                    Point index = free.lo();
                    for (int k = 0; k < dims(); ++k) {
                        const int d = side_.other_dim(k);
                        index[d] = sets[static_cast<std::size_t>(d)].first + run.other[d];
                    }
                    refuse_missing(side_.layout, flat_block, side_.side, index);
                },
                &work_);
        }
    }

    void visit_pair(const FlatBox& box, const std::vector<AxisSet>& sets, const BlockPair& blocks,
                    const Window& w) {
        work_.step();
        std::vector<PieceAxis> axes;
        for (int k = 0; k < dims(); ++k) {
            AxisTable table =
                side_.table(box, sets[static_cast<std::size_t>(side_.other_dim(k))], w, k);
            if (table.empty()) return;
            axes.push_back(side_.piece_axis(std::move(table), k));
        }
        visit(blocks, std::move(axes));
    }

    const FlatSide& side_;
    const Layout& other_;
    const SectionFrame& f_;
    const Window whole_ = f_.whole();
    const bool by_runs_;
    FlatWork work_;
    PieceVisitor& visitor_;
    std::int64_t elems_ = 0;
};

/// Both sides are flat.
class FlatPairs {
public:
    FlatPairs(const BlockOfTerm& own, PieceVisitor& visitor)
        : own_(own),
          f_(own.term),
          source_(own.source, own.term, f_, Side::source),
          destination_(own.destination, own.term, f_, Side::destination),
          from_(source_, own.destination, f_, visitor),
          to_(destination_, own.source, f_, visitor) {
        const Region domain = own.source.domain();
        one_order_ = domain == own.destination.domain() && own.term.source_region == domain &&
                     own.term.destination_region == domain && std::ranges::is_sorted(f_.axes);
        by_runs_ = !one_order_ && runs_pay(source_, destination_);
    }

    void operator()() {
        const bool sends = own_.own == Side::source;
        FlatPieces &here = sends ? from_ : to_, &there = sends ? to_ : from_;
        const auto own = by_boxes() ? here.boxes_of(own_.block) : std::vector<FlatBox>{};
        const FlatCyclic& others = sends ? destination_.flat : source_.flat;
        for (std::int64_t peer = 0; peer < others.num_filled_blocks(); ++peer) {
            from_.work().step();
            const BlockPair blocks = own_.pair_with(peer);
            if (one_order_) {
                visit_one_line(blocks);
            } else if (by_runs_) {
                from_.visit(blocks, runs_between(blocks));
            } else {
                const auto peers = there.boxes_of(peer);
                visit_boxes(blocks, sends ? own : peers, sends ? peers : own);
            }
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
            const AxisTable into = destination_.table(to, source_.axis(from, k).set, f_.whole(), k);
            if (into.empty()) return {};
            AxisTable both = source_.axis(from, k).in_block(into.reversed()).reversed();
            if (k == 0) both = both.shifted(from.position, 0);
            axes.push_back({std::make_shared<const AxisTable>(std::move(both)), 0, 0});
        }
        return axes;
    }

    const BlockOfTerm& own_;
    SectionFrame f_;
    FlatSide source_, destination_;
    FlatPieces from_, to_;
    bool one_order_ = false, by_runs_ = false;
};

void flat_pieces_of(const BlockOfTerm& own, PieceVisitor& visitor) {
    if (own.source.flat_cyclic() && own.destination.flat_cyclic()) return FlatPairs(own, visitor)();
    const SectionFrame f(own.term);
    const Side flat = own.source.flat_cyclic() ? Side::source : Side::destination;
    const FlatSide side(own.layout(flat), own.term, f, flat);
    const Layout& other_side = own.layout(other(flat));
    FlatPieces pieces(side, other_side, f, visitor);
    if (flat != own.own)
        pieces.of_product(own);
    else if (const BlockCyclic* grid = other_side.block_cyclic())
        pieces.with_grid(own, *grid);
    else
        pieces.with_boxes(own, *other_side.floor_plan());
}

}  // namespace datamover::plan

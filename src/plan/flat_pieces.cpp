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
namespace {

/// Whether two sets may have an index in common: false only where they have none.
bool may_meet(const AxisSet& a, const AxisSet& b) {
    const std::int64_t lo = std::max(a.first, b.first), hi = std::min(a.end, b.end);
    if (lo >= hi) return false;
    if (is_interval(a) || is_interval(b)) return (is_interval(a) ? b : a).next(lo) < hi;
    // Whatever the numbers of their blocks, these lie apart by the same rest.
    const std::int64_t common = std::gcd(a.period, b.period);
    const std::int64_t apart = ((b.first - a.first) % common + common) % common;
    return apart < a.length || common - apart < b.length;
}

bool any_is_wanted(int, const AxisSet&) {
    return true;
}

/// Whether boxes of ranges would be many of which each comes again only a few times: then the runs
/// themselves take less memory and time. Never for few boxes; and where going through the runs, in
/// `steps`, once for each of the `blocks` that may be met is beyond all bounds, only where so many
/// boxes are refused. A box is worth `steps_of_a_box`.
bool runs_pay(std::int64_t boxes, std::int64_t few_boxes, std::int64_t most_boxes,
              std::int64_t steps, std::int64_t steps_of_a_box, std::int64_t blocks) {
    constexpr std::int64_t many_boxes = std::int64_t{1} << 16;
    if (boxes <= few_boxes) return false;
    if (geometry::bounded_multiply(steps, blocks) > FlatWork::most_rows) return boxes > most_boxes;
    return steps / steps_of_a_box <= boxes || boxes > many_boxes;
}

bool can_walk_rows(const FlatCounts& counts) {
    return counts.pieces_of_rows <= FlatWork::most_rows;
}

/// The blocks of a layout, of the first replica.
std::int64_t blocks_of(const Layout& layout) {
    const BlockCyclic* grid = layout.block_cyclic();
    return grid ? grid->num_blocks() / grid->replicas() : layout.num_blocks();
}

/// The flat side of a redistribution, and how the indices of the other side correspond to it.
struct FlatSide {
    FlatSide(const BlockOfTerm& own, const SectionFrame& frame, Side of)
        : f(frame),
          side(of),
          layout(own.layouts.layout(of)),
          flat(*layout.flat_cyclic()),
          other_layout(own.layouts.layout(other(of))),
          region(of == Side::source ? own.term.source_region : own.term.destination_region) {}

    int dims() const { return f.extent.dims(); }
    /// What a box of ranges and a set of the other side share along dimension k of t.
    PieceAxis axis(const FlatBox& box, const AxisSet& set, const Region& w, int k) const {
        const Side there = other(side);
        const PieceAxis made =
            in_block(box, k,
                     intersect(set, f.lo(there)[k] + w.lo()[k], along(box, k).set,
                               f.lo(side)[k] + w.lo()[k], w.extent(k)),
                     f.dim(there, k));
        return side == Side::source ? reversed(made) : made;
    }
    /// An axis of this table, whose destinations are numbers of the box's set, to the block.
    PieceAxis in_block(const FlatBox& box, int k, const AxisTable& numbers, int source_dim) const {
        const bool is_last = f.dim(side, k) == flat.shape().dims() - 1;
        return along(box, k).in_block(numbers, is_last ? box.position : 0, source_dim);
    }
    const FlatAxis& along(const FlatBox& box, int k) const {
        return box.axis[static_cast<std::size_t>(f.dim(side, k))];
    }

    std::vector<Region> windows_at(std::int64_t other_block) const {
        if (side == Side::destination) return sending_windows(other_layout, other_block, f);
        return {f.whole()};
    }

    /// The sets of a block, per dimension of the flat side's array and in its indices.
    std::vector<AxisSet> sets_in_flat(const std::vector<AxisSet>& sets) const {
        std::vector<AxisSet> in_flat(sets.size());
        for (int k = 0; k < dims() && !sets.empty(); ++k) {
            AxisSet set = sets[static_cast<std::size_t>(f.dim(other(side), k))];
            const auto in_array = [&](std::int64_t index) {
                return geometry::add(geometry::subtract(index, f.lo(other(side))[k]),
                                     f.lo(side)[k]);
            };
            set.first = in_array(set.first);
            set.end = std::min(in_array(set.end), region.hi()[f.dim(side, k)]);
            in_flat[static_cast<std::size_t>(f.dim(side, k))] = set;
        }
        return in_flat;
    }

    /// The runs between a flat block and a product of sets, in a window; without sets, with a block
    /// that holds just the window.
    FlatRuns runs_with(const std::vector<AxisSet>& sets, std::int64_t flat_block,
                       const Region& w) const {
        const std::vector<AxisSet> in_flat = sets_in_flat(sets);
        std::vector<HeldAxis> axes(f.axes.size());
        for (int k = 0; k < dims(); ++k) {
            const auto d = static_cast<std::size_t>(f.dim(side, k));
            const std::int64_t lo = f.lo(side)[k] + w.lo()[k], hi = lo + w.extent(k);
            axes[d] = {sets.empty() ? AxisSet::interval(lo, hi) : in_flat[d], lo, hi,
                       f.dim(other(side), k)};
        }
        return {flat.flat_set(flat_block), flat.shape(), std::move(axes)};
    }

    const SectionFrame& f;
    const Side side;
    const Layout& layout;
    const FlatCyclic& flat;
    const Layout& other_layout;
    const Region& region;  ///< of the flat layout's array
};

/// Makes the pieces of one flat side of a redistribution, and counts them.
class FlatPieces {
public:
    FlatPieces(const BlockOfTerm& own, const SectionFrame& frame, Side of, const VisitPiece& visit)
        : side(own, frame, of), own_(own), work_(side.flat), visit_(visit) {}

    /// Between the flat layout and one whose blocks are products of sets.
    void operator()() {
        // A piece of a row takes 3 steps, and a box pays where it comes again 16 times.
        const FlatCounts counts = count_flat_boxes(side.flat, side.region);
        const bool by_runs =
            can_walk_rows(counts) &&
            runs_pay(counts.boxes, 64, FlatWork::most_pieces, 3 * counts.pieces_of_rows, 48,
                     std::max(side.flat.num_filled_blocks(), blocks_of(side.other_layout)));
        if (side.side != own_.own) return of_product(by_runs);
        if (by_runs) return of_ranges_by_runs();
        for_each_box(own_.block, any_is_wanted, [&](const FlatBox& box) {
            std::vector<AxisSet> sets;
            for (int k = 0; k < side.dims(); ++k) sets.push_back(side.along(box, k).set);
            product_pieces(
                own_, side.f,
                {side.layout, own_.block, side.side, std::move(sets), side.f.lo(side.side)}, false,
                [&](int k, const AxisSet& set, const Region& w) {
                    if (k == 0) work_.step();  // also of pairs that turn out to share nothing
                    return side.axis(box, set, w, k);
                },
                [this](BlockPiece&& piece) { visit(std::get<ProductPiece>(std::move(piece))); });
        });
    }

    std::vector<FlatBox> boxes_of(std::int64_t flat_block) {
        std::vector<FlatBox> boxes;
        for_each_box(flat_block, any_is_wanted, [&](const FlatBox& box) {
            work_.piece();
            boxes.push_back(box);
        });
        return boxes;
    }

    void visit(ProductPiece&& piece) {
        work_.piece();
        visit_(std::move(piece));
    }
    void visit(RangesPiece&& piece) {
        if (piece.elems > 0) visit_(std::move(piece));
    }

    /// All runs between two blocks.
    RangesPiece counted(const BlockPair& blocks, FlatRuns&& runs) {
        RangesPiece piece{blocks, std::make_shared<const FlatRuns>(std::move(runs)), side.side};
        piece.end = piece.runs->ranges.size();
        const auto count = [&](const FlatRun& run) {
            piece.elems += run.length;
            piece.count += run.unbroken();
        };
        piece.runs->for_each(0, piece.end, count, &work_);
        return piece;
    }

    FlatWork& work() { return work_; }

    const FlatSide side;

private:
    template <class Visit>
    void for_each_box(std::int64_t flat_block, const WantedIndices& wanted, Visit&& visit) {
        for_each_flat_box(side.flat, flat_block, side.region, wanted, work_, visit);
    }

    /// A block that is a product of sets and the flat blocks that it meets.
    void of_product(bool by_runs) {
        const auto sets = side.other_layout.axis_sets(own_.block);
        if (any_is_empty(sets)) return;
        const auto windows = side.windows_at(own_.block);
        const auto wanted = [in_flat = side.sets_in_flat(sets)](int d, const AxisSet& set) {
            return may_meet(in_flat[static_cast<std::size_t>(d)], set);
        };
        for (std::int64_t flat = 0; flat < side.flat.num_filled_blocks(); ++flat) {
            work_.step();
            if (!own_.meets(flat)) continue;
            const BlockPair blocks = own_.pair_with(flat);
            if (by_runs) {
                for (const Region& w : windows)
                    visit(counted(blocks, side.runs_with(sets, flat, w)));
                continue;
            }
            for_each_box(flat, wanted, [&](const FlatBox& box) {
                for (const Region& w : windows) visit_pair(box, sets, blocks, w);
            });
        }
    }

    void visit_pair(const FlatBox& box, const std::vector<AxisSet>& sets, const BlockPair& blocks,
                    const Region& w) {
        work_.step();
        ProductPiece piece{blocks, {}};
        for (int k = 0; k < side.dims(); ++k) {
            const int d = side.f.dim(other(side.side), k);
            piece.axes.push_back(side.axis(box, sets[static_cast<std::size_t>(d)], w, k));
            if (piece.axes.back().table->empty()) return;
        }
        visit(std::move(piece));
    }

    /// The own flat block and all blocks of the other side. Refuses what is missing there if it may
    /// not be.
    void of_ranges_by_runs() {
        std::int64_t elems = 0;
        for (std::int64_t block = 0; block < blocks_of(side.other_layout); ++block) {
            work_.step();
            const auto sets = side.other_layout.axis_sets(block);
            if (any_is_empty(sets)) continue;
            for (const Region& w : side.windows_at(block)) {
                RangesPiece piece =
                    counted(own_.pair_with(block), side.runs_with(sets, own_.block, w));
                elems += piece.elems;
                own_.for_each_replica(block, [&](const BlockPair& blocks) {
                    static_cast<BlockPair&>(piece) = blocks;
                    visit(RangesPiece(piece));
                });
            }
        }
        const FloorPlan* boxes = side.other_layout.floor_plan();
        if (!boxes || !own_.needs_all()) return;
        const Region all = side.f.whole();
        const RangesPiece whole = counted({}, side.runs_with({}, own_.block, all));
        if (own_.finds_all(*boxes, elems, whole.elems)) return;
        const auto held =
            windows_of(*boxes, boxes->find(boxes->bounding_box()), side.f, other(side.side));
        for (const Region& free : subtract_all(all, held)) refuse_any_in(free);
    }

    /// Throws if the flat block has an element in this window, which no box of the other side
    /// meets.
    void refuse_any_in(const Region& w) {
        const RangesPiece piece = counted({}, side.runs_with({}, own_.block, w));
        piece.runs->for_each(0, piece.end, [&](const FlatRun& run) {
            Point t = w.lo();
            for (int k = 0; k < side.dims(); ++k)
                t[k] += run.other[side.f.dim(other(side.side), k)];
            refuse_missing(side.layout, own_.block, side.side, side.f.index(other(side.side), t));
        });
    }

    const BlockOfTerm& own_;
    FlatWork work_;
    const VisitPiece& visit_;
};

/// Both sides are flat.
class FlatPairs {
public:
    FlatPairs(const BlockOfTerm& own, const SectionFrame& frame, const VisitPiece& visit)
        : own_(own),
          f_(frame),
          from_(own, f_, Side::source, visit),
          to_(own, f_, Side::destination, visit) {}

    void operator()() {
        const bool sends = own_.own == Side::source;
        FlatPieces &here = sends ? from_ : to_, &there = sends ? to_ : from_;
        const bool one_line = has_one_order(), by_runs = !one_line && pays_by_runs();
        const auto own = one_line || by_runs ? std::vector<FlatBox>{} : here.boxes_of(own_.block);
        for (std::int64_t peer = 0; peer < there.side.flat.num_filled_blocks(); ++peer) {
            from_.work().step();
            const BlockPair blocks = own_.pair_with(peer);
            if (one_line) {
                visit_one_line(blocks);
            } else if (by_runs) {
                from_.visit(from_.counted(blocks, runs_between(blocks)));
            } else {
                const auto peers = there.boxes_of(peer);
                visit_boxes(blocks, sends ? own : peers, sends ? peers : own);
            }
        }
    }

private:
    /// Whether both arrays are flattened alike, and whole.
    bool has_one_order() const {
        const Region domain = own_.near().domain();
        return domain == own_.far().domain() && own_.term.source_region == domain &&
               own_.term.destination_region == domain && std::ranges::is_sorted(f_.axes);
    }

    /// Whether pairs of boxes would be many, or take longer than going through all elements of a
    /// block, which working out its runs may come to: a pair of boxes takes as long as 64 elements.
    bool pays_by_runs() const {
        const FlatCounts from = count_flat_boxes(from_.side.flat, from_.side.region);
        const FlatCounts to = count_flat_boxes(to_.side.flat, to_.side.region);
        const std::int64_t senders = from_.side.flat.num_filled_blocks();
        const std::int64_t elems = from_.side.region.size() / std::max<std::int64_t>(senders, 1);
        return can_walk_rows(from) && can_walk_rows(to) &&
               runs_pay(geometry::bounded_multiply(from.boxes, to.boxes), 256, FlatWork::most_steps,
                        elems, 64, std::max(senders, to_.side.flat.num_filled_blocks()));
    }

    /// The destination's array is walked by the indices of the source's.
    FlatRuns runs_between(const BlockPair& blocks) const {
        const Point& shape = to_.side.flat.shape();
        OtherRanges to{to_.side.flat.flat_set(blocks.destination_block), 0, {}, {}};
        to.steps.resize(static_cast<std::size_t>(shape.dims()));
        to.lo.resize(to.steps.size());
        std::int64_t step = 1;
        for (int k = shape.dims() - 1; k >= 0; --k) {
            const auto d = static_cast<std::size_t>(f_.dim(Side::source, k));
            to.steps[d] = step;
            to.lo[d] = f_.source_lo[k];
            to.first += f_.destination_lo[k] * step;
            step *= shape[k];
        }
        FlatRuns runs = from_.side.runs_with({}, blocks.source_block, f_.whole());
        runs.other = std::move(to);
        return runs;
    }

    void visit_one_line(const BlockPair& blocks) {
        AxisTable table =
            intersect(from_.side.flat.flat_set(blocks.source_block), 0,
                      to_.side.flat.flat_set(blocks.destination_block), 0, from_.side.flat.elems());
        if (table.empty()) return;
        from_.visit(
            ProductPiece{blocks, {{std::make_shared<const AxisTable>(std::move(table)), 0, 0}}});
    }

    void visit_boxes(const BlockPair& blocks, const std::vector<FlatBox>& sent,
                     const std::vector<FlatBox>& received) {
        for (const FlatBox& from : sent)
            for (const FlatBox& to : received) {
                from_.work().step();
                ProductPiece piece{blocks, axes_between(from, to)};
                if (!piece.axes.empty()) from_.visit(std::move(piece));
            }
    }

    /// None where the boxes do not meet.
    std::vector<PieceAxis> axes_between(const FlatBox& from, const FlatBox& to) const {
        std::vector<PieceAxis> axes;
        for (int k = 0; k < f_.extent.dims(); ++k) {
            const PieceAxis into = to_.side.axis(to, from_.side.along(from, k).set, f_.whole(), k);
            if (into.table->empty()) return {};
            axes.push_back(reversed(from_.side.in_block(from, k, into.table->reversed(), 0)));
            axes.back().destination_sign = into.destination_sign;
        }
        return axes;
    }

    const BlockOfTerm& own_;
    const SectionFrame& f_;
    FlatPieces from_, to_;
};

}  // namespace

void flat_pieces_of(const BlockOfTerm& own, const VisitPiece& visit) {
    const SectionFrame f(own.term);
    if (own.near().flat_cyclic() && own.far().flat_cyclic()) return FlatPairs(own, f, visit)();
    FlatPieces(own, f, own.near().flat_cyclic() ? own.own : other(own.own), visit)();
}

}  // namespace datamover::plan

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
          f_(frame),
          by_runs_(runs_pay(count_flat_boxes(side.flat, side.region),
                            std::max(side.flat.num_filled_blocks(), blocks_of(other_side)))),
          work_(side.flat),
          visitor_(visitor) {}

    /// A flat block and the blocks of a block-cyclic layout; `visit_replicas` is called with the
    /// block of the first replica and its piece.
    template <class VisitReplicas>
    void with_grid(std::int64_t flat_block, const BlockCyclic& grid,
                   VisitReplicas&& visit_replicas) {
        if (by_runs_) return with_grid_by_runs(flat_block, grid, visit_replicas);
        for_each_box(flat_block, any_is_wanted, [&](const FlatBox& box) {
            std::vector<std::vector<GridPeer>> peers;
            for (int k = 0; k < dims(); ++k) {
                peers.push_back(grid_peers(box, grid, k));
                if (peers.back().empty()) return;
            }
            Point coordinates = grid.grid();
            std::vector<PieceAxis> axes(peers.size());
            const auto combine = [&](auto&& self, int k) -> void {
                if (k == dims()) {
                    visit_replicas(grid.block_at(coordinates), axes);
                    return;
                }
                for (const GridPeer& peer : peers[static_cast<std::size_t>(k)]) {
                    coordinates[side_.other_dim(k)] = peer.coordinate;
                    axes[static_cast<std::size_t>(k)] = peer.axis;
                    self(self, k + 1);
                }
            };
            combine(combine, 0);
        });
    }

    /// A flat block and the blocks of a floor plan. Refuses what is missing there if it may not be.
    void with_boxes(std::int64_t flat_block, const Layout& other_side, bool all_needed) {
        const FloorPlan& fp = *other_side.floor_plan();
        const Window whole = side_.whole();
        if (by_runs_) return with_boxes_by_runs(flat_block, other_side, all_needed);
        std::int64_t needed = 0;
        elems_ = 0;
        for_each_box(flat_block, any_is_wanted, [&](const FlatBox& box) {
            needed += side_.section_block(box, flat_block).elems_in(whole);
            for (const std::int64_t block : fp.find(bounds_in(box)))
                for (const Window& w : windows_at(other_side, block))
                    visit_pair(box, other_side.axis_sets(block), flat_block, block, w);
        });
        // Where blocks that receive overlap, what is sent twice may stand for what is missing: only
        // otherwise the number tells.
        const bool each_once = side_.side == Side::destination || fp.disjoint();
        if (!all_needed || (each_once && elems_ == needed)) return;
        const auto held = windows_of(fp, fp.find(fp.bounding_box()), f_, other(side_.side));
        for_each_box(flat_block, any_is_wanted, [&](const FlatBox& box) {
            refuse_missing(side_.section_block(box, flat_block), f_, {whole}, held);
        });
    }

    /// A block that is a product of sets and all flat blocks for which `takes_part`.
    template <class TakesPart>
    void of_product(const Layout& other_side, std::int64_t block, TakesPart&& takes_part) {
        const auto sets = other_side.axis_sets(block);
        for (const AxisSet& set : sets)
            if (set.size() == 0) return;
        const WantedIndices wanted = wanted_by(sets, side_, dims());
        for (std::int64_t flat = 0; flat < side_.flat.num_filled_blocks(); ++flat) {
            work_.step();
            if (!takes_part(flat)) continue;
            if (by_runs_) {
                for (const Window& w : windows_at(other_side, block))
                    visit_runs(sets, flat, block, w);
                continue;
            }
            for_each_box(flat, wanted, [&](const FlatBox& box) {
                for (const Window& w : windows_at(other_side, block))
                    visit_pair(box, sets, flat, block, w);
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
    struct GridPeer {
        std::int64_t coordinate;
        PieceAxis axis;
    };

    int dims() const { return f_.extent.dims(); }

    template <class Visit>
    void for_each_box(std::int64_t flat_block, const WantedIndices& wanted, Visit&& visit) {
        for_each_flat_box(side_.flat, flat_block, side_.region, wanted, work_, visit);
    }

    std::vector<GridPeer> grid_peers(const FlatBox& box, const BlockCyclic& grid, int k) const {
        std::vector<GridPeer> peers;
        const int d = side_.other_dim(k);
        for (const std::int64_t c : peer_coordinates(side_.axis(box, k).set, side_.flat_lo(k), grid,
                                                     d, side_.other_lo(k), f_.extent[k])) {
            AxisTable table = side_.table(box, grid.axis_set(d, c), side_.whole(), k);
            if (!table.empty()) peers.push_back({c, side_.piece_axis(std::move(table), k)});
        }
        return peers;
    }

    /// The box, on the other side, around what a flat box holds of the section.
    Region bounds_in(const FlatBox& box) const {
        Point lo = f_.extent, hi = f_.extent;
        for (int k = 0; k < dims(); ++k) {
            const AxisSet& set = side_.axis(box, k).set;
            const int d = side_.other_dim(k);
            const auto there = [&](std::int64_t index) {
                return side_.other_lo(k) +
                       std::clamp<std::int64_t>(index - side_.flat_lo(k), 0, f_.extent[k]);
            };
            lo[d] = there(set.lower());
            hi[d] = there(set.upper());
        }
        return {lo, hi};
    }

    std::vector<Window> windows_at(const Layout& other_side, std::int64_t block) const {
        if (side_.side == Side::destination) return sending_windows(other_side, block, f_);
        return {side_.whole()};
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

    void visit_runs(const std::vector<AxisSet>& sets, std::int64_t flat_block,
                    std::int64_t other_block, const Window& w) {
        visit(side_.blocks(flat_block, other_block), runs_with(sets, flat_block, w));
    }

    template <class VisitReplicas>
    void with_grid_by_runs(std::int64_t flat_block, const BlockCyclic& grid,
                           VisitReplicas&& visit_replicas) {
        std::vector<AxisSet> sets(static_cast<std::size_t>(dims()));
        for (std::int64_t block = 0; block < grid.num_blocks() / grid.replicas(); ++block) {
            work_.step();
            const Point at = grid.grid_coordinates(block);
            for (int d = 0; d < dims(); ++d)
                sets[static_cast<std::size_t>(d)] = grid.axis_set(d, at[d]);
            if (std::ranges::any_of(sets, [](const AxisSet& s) { return !s.size(); })) continue;
            visit_replicas(block, counted(runs_with(sets, flat_block, side_.whole())));
        }
    }

    void with_boxes_by_runs(std::int64_t flat_block, const Layout& other_side, bool all_needed) {
        const FloorPlan& fp = *other_side.floor_plan();
        elems_ = 0;
        for (std::int64_t block = 0; block < fp.num_blocks(); ++block) {
            work_.step();
            for (const Window& w : windows_at(other_side, block))
                visit_runs(other_side.axis_sets(block), flat_block, block, w);
        }
        const bool each_once = side_.side == Side::destination || fp.disjoint();
        if (!all_needed || (each_once && elems_ == elems_in_section(flat_block))) return;
        refuse_what_is_missing(flat_block, fp);
    }

    std::int64_t elems_in_section(std::int64_t flat_block) {
        std::vector<AxisSet> sets(static_cast<std::size_t>(dims()));
        for (int k = 0; k < dims(); ++k)
            sets[static_cast<std::size_t>(side_.other_dim(k))] =
                AxisSet::interval(side_.other_lo(k), side_.other_lo(k) + f_.extent[k]);
        return counted(runs_with(sets, flat_block, side_.whole())).elems;
    }

    /// Throws where the flat block has an element in the section that no box holds.
    void refuse_what_is_missing(std::int64_t flat_block, const FloorPlan& fp) {
        std::vector<Region> held;
        for (const Window& w : windows_of(fp, fp.find(fp.bounding_box()), f_, other(side_.side)))
            held.push_back({w.lo, w.lo + w.extent});
        const Window whole = side_.whole();
        for (const Region& free : subtract_all({whole.lo, whole.lo + whole.extent}, held)) {
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

    void visit_pair(const FlatBox& box, const std::vector<AxisSet>& sets, std::int64_t flat_block,
                    std::int64_t other_block, const Window& w) {
        work_.step();
        std::vector<PieceAxis> axes;
        for (int k = 0; k < dims(); ++k) {
            AxisTable table =
                side_.table(box, sets[static_cast<std::size_t>(side_.other_dim(k))], w, k);
            if (table.empty()) return;
            axes.push_back(side_.piece_axis(std::move(table), k));
        }
        visit(side_.blocks(flat_block, other_block), std::move(axes));
    }

    const FlatSide& side_;
    const SectionFrame& f_;
    const bool by_runs_;
    FlatWork work_;
    PieceVisitor& visitor_;
    std::int64_t elems_ = 0;
};

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

void flat_pieces_from_source(const Layout& source, const Layout& destination,
                             const Redistribution& term, std::int64_t source_block, Nodes nodes,
                             PieceVisitor& visitor) {
    if (source.flat_cyclic() && destination.flat_cyclic())
        return FlatPairs(source, destination, term, visitor).from_source(source_block);
    const SectionFrame f(term);
    if (!source.flat_cyclic()) {
        const FlatSide side(destination, term, f, Side::destination);
        const BlockCyclic* bc = source.block_cyclic();
        FlatPieces(side, source, f, visitor)
            .of_product(source, source_block, [&](std::int64_t flat_block) {
                return !bc || nearest_replica(*bc, source_block, side.flat.owner(flat_block),
                                              nodes) == source_block;
            });
        return;
    }
    const FlatSide side(source, term, f, Side::source);
    FlatPieces pieces(side, destination, f, visitor);
    const BlockCyclic* bc = destination.block_cyclic();
    if (!bc) return pieces.with_boxes(source_block, destination, term.reversed && !term.partial);
    const std::int64_t grid_size = bc->num_blocks() / bc->replicas();
    pieces.with_grid(source_block, *bc, [&](std::int64_t first, const auto& content) {
        for (std::int64_t block = first; block < bc->num_blocks(); block += grid_size)
            pieces.visit({source_block, block}, content);
    });
}

void flat_pieces_into_destination(const Layout& source, const Layout& destination,
                                  const Redistribution& term, std::int64_t destination_block,
                                  Nodes nodes, PieceVisitor& visitor) {
    if (source.flat_cyclic() && destination.flat_cyclic())
        return FlatPairs(source, destination, term, visitor).into_destination(destination_block);
    const SectionFrame f(term);
    if (!destination.flat_cyclic()) {
        const FlatSide side(source, term, f, Side::source);
        FlatPieces(side, destination, f, visitor)
            .of_product(destination, destination_block, [](std::int64_t) { return true; });
        return;
    }
    const FlatSide side(destination, term, f, Side::destination);
    FlatPieces pieces(side, source, f, visitor);
    const BlockCyclic* bc = source.block_cyclic();
    if (!bc) return pieces.with_boxes(destination_block, source, !term.partial && !term.reversed);
    const std::int64_t receiver = destination.owner(destination_block);
    pieces.with_grid(destination_block, *bc, [&](std::int64_t block, const auto& content) {
        pieces.visit({nearest_replica(*bc, block, receiver, nodes), destination_block}, content);
    });
}

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Pieces between a block of flat ranges and the blocks of another layout.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "coverage.hpp"
#include "flat_runs.hpp"
#include "flat_side.hpp"

namespace datamover::plan {

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

}  // namespace datamover::plan

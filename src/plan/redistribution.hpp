// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a redistribution that begin or end in one block.
#pragma once

#include <cstdint>

#include "datamover/motion_plan.hpp"
#include "datamover/side.hpp"
#include "plan/replicas.hpp"
#include "plan/runs.hpp"

namespace datamover::plan {

/// The shared coordinate t of a redistribution: destination dimension k runs over
/// destination_region.lo[k] + t[k] and source dimension axes[k] over source_region.lo[axes[k]] +
/// t[k].
struct SectionFrame {
    explicit SectionFrame(const Redistribution& term);
    Point source_lo;       ///< per destination dimension
    Point destination_lo;  ///< per destination dimension
    Point extent;          ///< per destination dimension
    std::vector<int> axes;

    /// The dimension of a side's array along dimension k of t.
    int dim(Side side, int k) const {
        return side == Side::source ? axes[static_cast<std::size_t>(k)] : k;
    }
    const Point& lo(Side side) const { return side == Side::source ? source_lo : destination_lo; }
};

using Layouts = PerSide<const Layout*>;

/// Visits every piece that begins in a source block (`own_side` source) or ends in a destination
/// block. Throws mismatch if the block needs an element that no block of the source holds, unless
/// the term is partial; for an adjoint term, if it has an element that no block is to get back.
void visit_pieces(const Layouts& layouts, const Redistribution& term, Side own_side,
                  std::int64_t block, Nodes nodes, const VisitPiece& visit);

/// The same if one side is an index list: element by element, ordered by t.
void visit_index_pieces(const Layouts& layouts, const Redistribution& term, Side own_side,
                        std::int64_t block, Nodes nodes, const VisitPiece& visit);

/// The same if one side or both are ranges of the flattened array, and none is an index list:
/// nests, of which a flat side's axes are all along its one local dimension, or, if these would be
/// many that hardly repeat, runs.
void visit_flat_pieces(const Layouts& layouts, const Redistribution& term, Side own_side,
                       std::int64_t block, Nodes nodes, const VisitPiece& visit);

/// Whether every element of a block on `own_side` must be held by a block of the other side.
inline bool needs_all(const Redistribution& term, Side own_side) {
    return !term.partial && (own_side == Side::source) == term.reversed;
}

/// Whether a source block is the replica that sends to a destination block.
bool is_sender(const Layouts& layouts, const BlockPair& blocks, Nodes nodes);

/// Visits the pairs of `block`, on `own_side`, with the replicas of a block of the other side, a
/// grid, that send to it or get from it; `first` is the block of the first replica.
template <class Visit>
void for_each_replica(const Layouts& layouts, Side own_side, std::int64_t block,
                      const BlockCyclic& grid, std::int64_t first, Nodes nodes, Visit&& visit) {
    if (own_side == Side::destination) {
        const std::int64_t receiver = layouts.destination->owner(block);
        visit(BlockPair{nearest_replica(grid, first, receiver, nodes), block});
        return;
    }
    const std::int64_t grid_size = grid.num_blocks() / grid.replicas();
    for (std::int64_t far = first; far < grid.num_blocks(); far += grid_size)
        if (is_sender(layouts, {block, far}, nodes)) visit(BlockPair{block, far});
}

/// The coordinates along dimension d of a block-cyclic grid whose processes hold any index that
/// `set` holds at source_lo + t, destination index destination_lo + t, t in [0, extent); ascending.
std::vector<std::int64_t> peer_coordinates(const AxisSet& set, std::int64_t set_lo,
                                           const BlockCyclic& other, int d, std::int64_t other_lo,
                                           std::int64_t extent);

}  // namespace datamover::plan

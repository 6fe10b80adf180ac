// SPDX-License-Identifier: BSD-3-Clause
// Pieces between a flat layout and other layouts.
#include "flat_pieces.hpp"

#include "flat_pairs.hpp"

namespace datamover::plan {

void visit_flat_pieces(const Layouts& layouts, const Redistribution& term, Side own_side,
                       std::int64_t block, Nodes nodes, const VisitPiece& visit) {
    const Side far_side = other(own_side);
    const Layout &own = *layouts[own_side], &far = *layouts[far_side];
    if (own.flat_cyclic() && far.flat_cyclic())
        return FlatPairs(layouts, term, visit).of_block(own_side, block);
    const SectionFrame f(term);
    if (!own.flat_cyclic()) {
        const FlatSide side(far, term, f, far_side);
        FlatPieces(side, own, f, visit).of_product(own, block, [&](std::int64_t flat_block) {
            return own_side == Side::destination || is_sender(layouts, {block, flat_block}, nodes);
        });
        return;
    }
    const FlatSide side(own, term, f, own_side);
    FlatPieces pieces(side, far, f, visit);
    const BlockCyclic* grid = far.block_cyclic();
    if (!grid) return pieces.with_boxes(block, far, needs_all(term, own_side));
    pieces.with_grid(block, *grid, [&](std::int64_t first, const auto& content) {
        for_each_replica(layouts, own_side, block, *grid, first, nodes,
                         [&](const BlockPair& blocks) { pieces.visit(blocks, content); });
    });
}

}  // namespace datamover::plan

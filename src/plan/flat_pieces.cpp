// SPDX-License-Identifier: BSD-3-Clause
// Pieces between a flat layout and other layouts.
#include "flat_pieces.hpp"

#include "flat_pairs.hpp"

namespace datamover::plan {

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

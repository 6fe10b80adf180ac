// SPDX-License-Identifier: BSD-3-Clause
// How many elements go from one process to another?
#include "datamover/pair_part.hpp"

#include "geometry/checked.hpp"

namespace datamover {

std::int64_t Piece::size() const {
    if (const auto* product = std::get_if<ProductPiece>(&content)) {
        std::int64_t n = 1;
        for (const PieceAxis& axis : product->axes) n = geometry::multiply(n, axis.table->size());
        return n;
    }
    if (const auto* reshape = std::get_if<ReshapePiece>(&content)) return reshape->source.size();
    return static_cast<std::int64_t>(std::get<IndexPiece>(content).source.size());
}

std::int64_t PairPart::size() const {
    std::int64_t n = 0;
    for (const Piece& piece : pieces) n = geometry::add(n, piece.size());
    return n;
}

}  // namespace datamover

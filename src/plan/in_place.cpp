// SPDX-License-Identifier: BSD-3-Clause
// What is left to move where one array is source and destination at once?
#include "in_place.hpp"

#include <algorithm>

namespace datamover::plan {
namespace {

bool is_identity(const PieceAxis& axis) {
    const AxisTable& table = *axis.table;
    const auto stays = [](const AxisRun& r) {
        return r.source == r.destination && (r.count == 1 || r.source_step == r.destination_step);
    };
    return axis.source_dim == axis.destination_dim &&
           (table.periods() <= 1 || table.source_period() == table.destination_period()) &&
           std::all_of(table.runs().begin(), table.runs().end(), stays) &&
           std::all_of(table.tail().begin(), table.tail().end(), stays);
}

}  // namespace

bool is_identity(const Piece& piece) {
    if (piece.source_block != piece.destination_block) return false;
    if (const auto* product = std::get_if<ProductPiece>(&piece.content))
        return std::all_of(product->axes.begin(), product->axes.end(),
                           [](const PieceAxis& axis) { return is_identity(axis); });
    if (const auto* reshape = std::get_if<ReshapePiece>(&piece.content))
        return reshape->source == reshape->destination;
    const auto& indices = std::get<IndexPiece>(piece.content);
    return indices.source == indices.destination;
}

}  // namespace datamover::plan

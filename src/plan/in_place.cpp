// SPDX-License-Identifier: BSD-3-Clause
// Parts of an in-place move: what remains if one array is source and destination.
#include "in_place.hpp"

#include <algorithm>

namespace datamover::plan {
namespace {

bool is_identity(const PieceAxis& axis) {
    const AxisTable& table = *axis.table;
    const auto stays = [](const AxisRun& r) {
        return r.source == r.destination && (r.count == 1 || r.source_step == r.destination_step);
    };
    return axis.source_dim == axis.destination_dim && axis.source_sign == axis.destination_sign &&
           (table.periods() <= 1 || table.source_period() == table.destination_period()) &&
           std::ranges::all_of(table.runs(), stays) && std::ranges::all_of(table.tail(), stays);
}

}  // namespace

bool is_identity(const BlockPair& blocks, const BoxShape& box) {
    return blocks.source_block == blocks.destination_block &&
           std::ranges::all_of(box.axes(), [](const BoxAxis& axis) {
               return axis.source_dim == axis.destination_dim && axis.source == axis.destination;
           });
}

bool is_identity(const ProductPiece& piece) {
    return piece.source_block == piece.destination_block &&
           std::ranges::all_of(piece.axes, [](const PieceAxis& axis) { return is_identity(axis); });
}

void drop_identities(IndexPiece& piece) {
    if (piece.source_block != piece.destination_block) return;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < piece.source.size(); ++i) {
        if (piece.source[i] == piece.destination[i]) continue;
        piece.source[kept] = piece.source[i];
        piece.destination[kept++] = piece.destination[i];
    }
    piece.source.resize(kept);
    piece.destination.resize(kept);
}

}  // namespace datamover::plan

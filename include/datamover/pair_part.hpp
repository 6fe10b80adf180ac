// SPDX-License-Identifier: BSD-3-Clause
// What goes from one process to another, in the local indices of their blocks?
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "datamover/axis_table.hpp"
#include "datamover/region.hpp"

namespace datamover {

/// One axis of a piece: local positions along a dimension of the source block that meet local
/// positions along a dimension of the destination block.
struct PieceAxis {
    std::shared_ptr<const AxisTable> table;
    int source_dim = 0;
    int destination_dim = 0;
};

/// The Cartesian product of its axes (in order of the destination's dimensions).
struct ProductPiece {
    std::vector<PieceAxis> axes;
};

/// Boxes of different shapes with equally many points, both walked with the last dimension fastest.
/// Regions are in local indices of the blocks (ghosts may be negative).
struct ReshapePiece {
    Region source;
    Region destination;
};

/// Single elements, as flat row-major indices into the blocks' extents, in the order agreed.
struct IndexPiece {
    std::vector<std::int64_t> source;
    std::vector<std::int64_t> destination;
};

/// A part of a plan for one pair of processes that concerns one pair of blocks.
struct Piece {
    std::int64_t source_block = 0;
    std::int64_t destination_block = 0;
    std::variant<ProductPiece, ReshapePiece, IndexPiece> content;

    std::int64_t size() const;  ///< elements
};

/// All that goes from one process to another. Both processes derive the same pieces in the same
/// order from the plan: that is the order of the message.
struct PairPart {
    std::vector<Piece> pieces;

    std::int64_t size() const;  ///< elements; throws out_of_range beyond 63 bits
    bool empty() const { return pieces.empty(); }
};

/// One peer of a process and what is exchanged with it.
struct PeerPart {
    std::int64_t rank = 0;
    PairPart part;
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// The part of a plan between one pair of processes, in the local indices of their blocks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "datamover/advanced/axis_table.hpp"
#include "datamover/export.h"
#include "datamover/region.hpp"
#include "datamover/side.hpp"

// Declared outside of the public part, so that shared libraries do not export it.
namespace datamover::plan {
struct FlatRuns;
}  // namespace datamover::plan

namespace datamover DATAMOVER_PUBLIC {

/// One axis of a box: `length` local positions of the source block, from `source`, paired with the
/// same number of positions of the destination block, from `destination`. Ghosts are at negative
/// positions, or beyond the block's extents.
struct BoxAxis {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::int64_t length = 1;
    std::int32_t source_dim = 0;
    std::int32_t destination_dim = 0;

    std::int64_t start(Side side) const { return side == Side::source ? source : destination; }
    int dim(Side side) const { return side == Side::source ? source_dim : destination_dim; }
    bool operator==(const BoxAxis&) const = default;
};

/// The position of a box in its two blocks. Its axes are in the order of the message, outermost
/// first: by default that of the destination's dimensions.
struct BoxShape {
    int dims = 0;
    std::array<BoxAxis, max_dims> axis;

    std::span<const BoxAxis> axes() const { return {axis.data(), static_cast<std::size_t>(dims)}; }
    std::int64_t size() const;  ///< elements
    bool operator==(const BoxShape& other) const;
};

/// The two blocks of a box or a piece.
struct BlockPair {
    std::int64_t source_block = 0;
    std::int64_t destination_block = 0;

    std::int64_t block(Side side) const {
        return side == Side::source ? source_block : destination_block;
    }
};

/// A box between two blocks, with the number of its shape in a list.
struct PlacedBox : BlockPair {
    std::int64_t shape = 0;
};

/// Boxes, each between its own pair of blocks, in order. Boxes with the same position in their
/// blocks share a shape: the halo of many equal blocks has as many shapes as a block has neighbors.
struct BoxList {
    std::vector<BoxShape> shapes;
    std::vector<PlacedBox> boxes;
    std::int64_t elems = 0;

    std::int64_t size() const { return elems; }
    const BoxShape& shape_of(const PlacedBox& box) const {
        return shapes[static_cast<std::size_t>(box.shape)];
    }
};

/// One axis of a product: local positions along a dimension of the source block, paired with local
/// positions along a dimension of the destination block.
struct PieceAxis {
    std::shared_ptr<const AxisTable> table;
    int source_dim = 0;
    int destination_dim = 0;
    /// Factors: the local positions are those of the table times this. -1 along a flip; in a block
    /// of ranges of the flattened array, the number of elements from one row to the next.
    std::int64_t source_sign = 1;
    std::int64_t destination_sign = 1;

    int dim(Side side) const { return side == Side::source ? source_dim : destination_dim; }
    std::int64_t sign(Side side) const {
        return side == Side::source ? source_sign : destination_sign;
    }
};

/// The Cartesian product of its axes (in order of the destination's dimensions).
struct ProductPiece : BlockPair {
    std::vector<PieceAxis> axes;

    std::int64_t size() const;
};

/// Boxes of different shapes with the same number of points, both traversed with the last dimension
/// fastest. Regions are in local indices of the blocks (ghosts may be negative).
struct ReshapePiece : BlockPair {
    Region source;
    Region destination;

    const Region& box(Side side) const { return side == Side::source ? source : destination; }
    std::int64_t size() const { return source.size(); }
};

/// Single elements, as flat row-major indices into the blocks' extents, in the order agreed.
struct IndexPiece : BlockPair {
    std::vector<std::int64_t> source;
    std::vector<std::int64_t> destination;

    std::int64_t size() const { return static_cast<std::int64_t>(source.size()); }
};

/// Runs of elements between a block of ranges of the flattened array and another block, in the
/// order of the ranges. They are not stored: `runs` computes them.
struct RangesPiece : BlockPair {
    std::shared_ptr<const plan::FlatRuns> runs;
    Side flat_side = Side::source;  ///< the side with the block of ranges
    std::int64_t first =
        0;  ///< the first position in that block that takes part; `end` is one past the last
    std::int64_t end = 0;
    std::int64_t elems = 0;
    std::int64_t count = 0;  ///< of runs of elements that are contiguous in both blocks

    std::int64_t size() const { return elems; }
};

/// A piece of the plan for one pair of processes: many boxes, or the content for one pair of
/// blocks.
struct Piece {
    std::variant<BoxList, ProductPiece, ReshapePiece, IndexPiece, RangesPiece> content;

    std::int64_t size() const;  ///< elements
};

/// All elements sent from one process to another. Both processes derive the same pieces in the same
/// order from the plan: this is the order of the message.
struct PairPart {
    std::vector<Piece> pieces;

    std::int64_t size() const;  ///< elements; throws out_of_range beyond 63 bits
    bool empty() const { return pieces.empty(); }
};

/// One peer of a process, and the elements exchanged with it.
struct PeerPart {
    std::int64_t rank = 0;
    PairPart part;
};

}  // namespace datamover

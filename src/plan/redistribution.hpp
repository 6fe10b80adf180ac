// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a redistribution that begin or end in one block.
#pragma once

#include <cstdint>

#include "datamover/motion_plan.hpp"
#include "datamover/side.hpp"
#include "plan/process_parts.hpp"

namespace datamover::plan {

/// Receives pieces; those of a pair of blocks come in the same order from either side.
class PieceVisitor {
public:
    virtual ~PieceVisitor() = default;
    virtual void visit(const BlockPair& blocks, const BoxShape& box) = 0;
    virtual void visit(ProductPiece&& piece) = 0;
    virtual void visit(IndexPiece&& piece) = 0;
    virtual void visit(RangesPiece&& piece) = 0;
};

/// The shared coordinate t of a redistribution: destination dimension k runs over
/// destination_region.lo[k] + t[k] and source dimension axes[k] over source_region.lo[axes[k]] +
/// t[k]. Along a flipped dimension, source index i counts as -1 - i here, so that both sides ascend
/// with t: "oriented" regions and sets.
struct SectionFrame {
    explicit SectionFrame(const Redistribution& term);
    Point source_lo;       ///< per destination dimension
    Point destination_lo;  ///< per destination dimension
    Point extent;          ///< per destination dimension
    std::vector<int> axes;
    std::vector<bool> flip;  ///< per destination dimension

    /// The dimension of a side's array along dimension k of t.
    int dim(Side side, int k) const {
        return side == Side::source ? axes[static_cast<std::size_t>(k)] : k;
    }
    const Point& lo(Side side) const { return side == Side::source ? source_lo : destination_lo; }
    /// -1 along a flipped dimension of the source, else 1.
    int sign(Side side, int k) const {
        return side == Side::source && flip[static_cast<std::size_t>(k)] ? -1 : 1;
    }
    Region oriented(Side side, const Region& region) const;  ///< also turns it back
    std::vector<AxisSet> oriented_sets(Side side, const Layout& layout, std::int64_t block) const;
    /// The index of a side's array at t.
    Point index(Side side, const Point& t) const;
};

/// Every piece that begins in a source block (ends in a destination block). The second throws
/// mismatch where the block needs an element that nobody holds, unless the term is partial; so does
/// the first for an adjoint term.
void pieces_from_source(const Layout& source, const Layout& destination, const Redistribution& term,
                        std::int64_t source_block, Nodes nodes, PieceVisitor& visitor);
void pieces_into_destination(const Layout& source, const Layout& destination,
                             const Redistribution& term, std::int64_t destination_block,
                             Nodes nodes, PieceVisitor& visitor);

/// Orders the elements of a piece by their place in the destination block, those for one place as
/// they are: writing in order and reading at random takes half the time of the opposite.
void order_by_destination(IndexPiece& piece);

/// The same where one side is an index list, or ranges of the flattened array are flipped: element
/// by element.
void index_pieces_from_source(const Layout& source, const Layout& destination,
                              const Redistribution& term, std::int64_t source_block, Nodes nodes,
                              PieceVisitor& visitor);
void index_pieces_into_destination(const Layout& source, const Layout& destination,
                                   const Redistribution& term, std::int64_t destination_block,
                                   Nodes nodes, PieceVisitor& visitor);

/// The same where one side or both are ranges of the flattened array, and none an index list: sums
/// of products, of which a flat side's axes all lie along its one local dimension; or, where these
/// would be many that hardly repeat, ranges pieces.
void flat_pieces_from_source(const Layout& source, const Layout& destination,
                             const Redistribution& term, std::int64_t source_block, Nodes nodes,
                             PieceVisitor& visitor);
void flat_pieces_into_destination(const Layout& source, const Layout& destination,
                                  const Redistribution& term, std::int64_t destination_block,
                                  Nodes nodes, PieceVisitor& visitor);

/// The coordinates along dimension d of a block-cyclic grid whose processes hold any index that
/// `set` holds at source_lo + t, destination index destination_lo + t, t in [0, extent); ascending.
std::vector<std::int64_t> peer_coordinates(const AxisSet& set, std::int64_t set_lo,
                                           const BlockCyclic& other, int d, std::int64_t other_lo,
                                           std::int64_t extent);

}  // namespace datamover::plan

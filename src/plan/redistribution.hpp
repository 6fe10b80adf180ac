// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a redistribution that begin or end in one block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "datamover/side.hpp"
#include "plan/process_parts.hpp"

namespace datamover::plan {

/// A box between two blocks, which may become one of a list.
struct BoxPiece : BlockPair {
    BoxShape shape{};
};

/// What a redistribution moves between two blocks.
using BlockPiece = std::variant<BoxPiece, ProductPiece, IndexPiece, RangesPiece>;

/// Receives pieces; those of a pair of blocks come in the same order from either side.
using VisitPiece = std::function<void(BlockPiece&&)>;

/// Whether all indices of a set lie side by side.
inline bool is_interval(const AxisSet& set) {
    return set.end - set.first <= set.length;
}

/// Whether a product of sets is empty.
inline bool any_is_empty(const std::vector<AxisSet>& sets) {
    return std::ranges::any_of(sets, [](const AxisSet& set) { return set.size() == 0; });
}

/// The number of indices of a set in [begin, end).
inline std::int64_t elems_between(AxisSet set, std::int64_t begin, std::int64_t end) {
    set.end = std::min(set.end, end);
    const std::int64_t below_end = set.size();
    set.end = std::min(set.end, begin);
    return below_end - set.size();
}

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
    std::vector<bool> flip;  ///< per destination dimension; empty if none is flipped

    /// The dimension of a side's array along dimension k of t.
    int dim(Side side, int k) const {
        return side == Side::source ? axes[static_cast<std::size_t>(k)] : k;
    }
    const Point& lo(Side side) const { return side == Side::source ? source_lo : destination_lo; }
    /// -1 along a flipped dimension of the source, else 1.
    int sign(Side side, int k) const {
        return side == Side::source && !flip.empty() && flip[static_cast<std::size_t>(k)] ? -1 : 1;
    }
    Region oriented(Side side, const Region& region) const;  ///< also turns it back
    /// What a block holds, per dimension of t.
    std::vector<AxisSet> oriented_sets(Side side, const Layout& layout, std::int64_t block) const;
    Region whole() const { return Region::from_shape(extent); }
    /// The index of a side's array at t, and t of an index.
    Point index(Side side, const Point& t) const;
    Point t_of(Side side, const Point& index) const;
};

/// A term between two layouts, and the block of one side whose pieces are looked for.
struct BlockOfTerm {
    const PlanLayouts& layouts;
    const Redistribution& term;
    Side own;  ///< the side of the block
    std::int64_t block;
    Nodes nodes;

    const Layout& near() const { return layouts.layout(own); }
    const Layout& far() const { return layouts.layout(other(own)); }
    /// The region of the term on the block's side.
    const Region& region() const {
        return own == Side::source ? term.source_region : term.destination_region;
    }
    BlockPair pair_with(std::int64_t peer) const {
        return own == Side::source ? BlockPair{block, peer} : BlockPair{peer, block};
    }
    /// Whether every element of the block within the region must be held by the other side.
    bool needs_all() const { return !term.partial && term.reversed == (own == Side::source); }
    /// Whether `elems`, found in boxes of the other side, are all that the block holds. Where boxes
    /// that receive overlap, what is sent twice may stand for what is missing: then it is not
    /// known.
    bool finds_all(const FloorPlan& boxes, std::int64_t elems, std::int64_t held) const {
        return (own == Side::destination || boxes.disjoint()) && elems == held;
    }
    /// Whether the peer, a block of the other side, is not served by a nearer replica of the
    /// source block.
    bool meets(std::int64_t peer) const;
    /// Calls visit(BlockPair) for the replicas of a block of the other side with which this one
    /// exchanges elements. `first` is the block of the first replica.
    template <class Visit>
    void for_each_replica(std::int64_t first, Visit&& visit) const {
        const BlockCyclic* grid = far().block_cyclic();
        if (!grid) return visit(pair_with(first));
        if (own == Side::destination)
            return visit(pair_with(nearest_replica(*grid, first, near().owner(block), nodes)));
        const std::int64_t grid_size = grid->num_blocks() / grid->replicas();
        for (std::int64_t peer = first; peer < grid->num_blocks(); peer += grid_size)
            if (meets(peer)) visit(pair_with(peer));
    }
};

/// Every piece that begins (source side) or ends in the block. Throws mismatch if the block needs
/// an element that no block of the other side holds, or is to bring it back.
void pieces_of(const BlockOfTerm& own, const VisitPiece& visit);

struct SectionBlock;

/// Makes the axis of a product along dimension k of t, in a window, which is a box of t, towards
/// what a block of the other side holds there (oriented).
using MakeAxis = std::function<PieceAxis(int k, const AxisSet& far, const Region& w)>;

/// The pieces between `held`, what the block holds or a part of it, and the other side, whose
/// blocks are products of sets. `boxes`: where both hold intervals, their pieces are boxes.
void product_pieces(const BlockOfTerm& own, const SectionFrame& f, const SectionBlock& held,
                    bool boxes, const MakeAxis& make_axis, const VisitPiece& visit);

/// The same where one side is an index list, or ranges of the flattened array are flipped: element
/// by element.
void index_pieces_of(const BlockOfTerm& own, const VisitPiece& visit);

/// The same where one side or both are ranges of the flattened array, and none an index list: sums
/// of products, of which a flat side's axes all lie along its one local dimension; or, where these
/// would be many that hardly repeat, ranges pieces.
void flat_pieces_of(const BlockOfTerm& own, const VisitPiece& visit);

/// Orders the elements of a piece by their place in the destination block, those for one place as
/// they are: writing in order and reading at random takes half the time of the opposite.
void order_by_destination(IndexPiece& piece);

/// The box with source and destination exchanged, its axes in the order of the new destination.
BoxShape reversed(const BoxShape& box);

/// The axis with source and destination exchanged.
PieceAxis reversed(const PieceAxis& axis);

/// The box as a product of intervals.
ProductPiece product_of(const BlockPair& blocks, const BoxShape& box);

/// The coordinates along dimension d of a block-cyclic grid whose processes hold any index that
/// `set` holds at source_lo + t, destination index destination_lo + t, t in [0, extent); ascending.
std::vector<std::int64_t> peer_coordinates(const AxisSet& set, std::int64_t set_lo,
                                           const BlockCyclic& other, int d, std::int64_t other_lo,
                                           std::int64_t extent);

}  // namespace datamover::plan

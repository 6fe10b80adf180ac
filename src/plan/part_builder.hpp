// SPDX-License-Identifier: BSD-3-Clause
// Builder of a pair's part: pieces in the canonical order that both sides derive.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "datamover/advanced/pair_part.hpp"
#include "geometry/record_index.hpp"

namespace datamover::plan {

/// Appends boxes to a list; those that are alike get one shape.
class BoxListBuilder {
public:
    /// Boxes without elements are left out. O(1). Throws out_of_range
    /// beyond 63 bits of elements.
    void add(std::int64_t source_block, std::int64_t destination_block, const BoxShape& shape);

    BoxList& list() { return list_; }
    bool empty() const { return list_.boxes.empty(); }
    /// The list, once.
    BoxList finish() { return std::move(list_); }

private:
    BoxList list_;
    std::vector<std::int64_t> shape_elems_;
    geometry::RecordIndex known_;
};

/// Collects the pieces that one process exchanges and puts them into the canonical order: by peer,
/// term, source block and destination block, all of which both sides know. Pieces of one term and
/// one pair of blocks keep the order in which they are added, so both sides must add those in one
/// order. Terms must be added in ascending order.
class PartBuilder {
public:
    /// A box without elements is left out. O(1).
    void add(std::int64_t peer, std::int64_t term, std::int64_t source_block,
             std::int64_t destination_block, const BoxShape& shape);
    void add(std::int64_t peer, std::int64_t term, const BlockPair& blocks, Piece piece);
    /// O(n) where the pieces of a term were added in order of one of the two blocks.
    std::vector<PeerPart> build();

private:
    /// Boxes and other pieces, in order of terms.
    struct List {
        /// A negative shape stands for a piece that is no box.
        BoxListBuilder entries;
        std::vector<Piece> others;
        std::int64_t term = -1;
        std::size_t first_of_term = 0;

        void add(const BlockPair& blocks, Piece piece);
        void begin_term(std::int64_t next);
        std::vector<Piece> finish();
    };
    struct Peer {
        std::int64_t rank = 0;
        /// One piece that is no box, as long as there is nothing else.
        std::vector<Piece> only;
        BlockPair only_blocks;
        std::int64_t only_term = -1;
        std::unique_ptr<List> list;
    };

    Peer& peer_at(std::int64_t rank);
    static List& list_of(Peer& peer, std::int64_t term);

    std::vector<Peer> peers_;
    geometry::RecordIndex peer_numbers_;
    std::size_t last_ = 0;
};

/// Sorts boxes by source block, then destination block; what is equal keeps its order. O(n) for
/// many boxes.
void sort_by_blocks(std::vector<PlacedBox>& boxes, std::size_t first);

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Builders of pairs' parts: pieces in the canonical order that both sides derive.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "datamover/pair_part.hpp"
#include "geometry/record_index.hpp"
#include "runs.hpp"

namespace datamover::plan {

/// Appends pieces to a part. Nests that are alike get one shape; pieces without elements are left
/// out. Throws out_of_range beyond 63 bits of elements.
class PairPartBuilder {
public:
    /// O(axes).
    void add(const BlockPair& blocks, const PieceContent& content);
    /// What was added since the last term began is sorted by blocks, if this is another term.
    void begin_term(std::int64_t term);

    bool empty() const { return part_.empty(); }
    std::int64_t elems() const { return part_.elems_; }
    /// The part; the builder is then empty.
    PairPart finish() {
        PairPart made = std::move(part_);
        part_ = {};
        known_ = nullptr;
        term_ = -1;
        first_of_term_ = 0;
        return made;
    }

private:
    std::int64_t shape_of(std::span<const PartAxis> axes);
    std::int64_t append_shape(std::span<const PartAxis> axes);

    PairPart part_;
    std::unique_ptr<geometry::RecordIndex> known_;  ///< of the shapes, if they are several
    std::int64_t term_ = -1;
    std::size_t first_of_term_ = 0;
};

/// Collects the pieces that one process exchanges and puts them into the canonical order: by peer,
/// term, source block and destination block, all of which both sides know. Pieces of one term and
/// one pair of blocks keep the order in which they are added, so both sides must add those in one
/// order. Terms must be added in ascending order.
class PartBuilder {
public:
    void add(std::int64_t peer, std::int64_t term, const BlockPair& blocks,
             const PieceContent& content) {
        PairPartBuilder& part = peer_at(peer).part;
        part.begin_term(term);
        part.add(blocks, content);
    }
    /// O(n) where the pieces of a term were added in order of one of the two blocks.
    std::vector<PeerPart> build();

private:
    struct Peer {
        std::int64_t rank = 0;
        PairPartBuilder part;
    };
    Peer& peer_at(std::int64_t rank);

    std::vector<Peer> peers_;
    geometry::RecordIndex peer_numbers_;
    std::size_t last_ = 0;
};

/// Sorts entries from number `first` on by source block, then destination block; what is equal
/// keeps its order. O(n) for many entries.
void sort_by_blocks(std::vector<PartEntry>& entries, std::size_t first);

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// In which order do the pieces of a pair of processes stand, whichever side derives them?
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "box_list_builder.hpp"
#include "datamover/pair_part.hpp"

namespace datamover::plan {

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
    struct Peer {
        std::int64_t rank = 0;
        /// As long as there is nothing else.
        std::optional<Piece> only;
        BlockPair only_blocks;
        /// In order of terms; a negative shape stands for a piece that is no box.
        BoxListBuilder entries;
        std::vector<Piece> others;
        std::int64_t term = -1;
        std::size_t first_of_term = 0;
    };

    Peer& peer_at(std::int64_t rank, std::int64_t term);
    static void list(Peer& peer, const BlockPair& blocks, Piece piece);
    static void list_only(Peer& peer);
    static void finish_term(Peer& peer);
    static PairPart part_of(Peer& peer);

    std::vector<Peer> peers_;
    std::unordered_map<std::int64_t, std::size_t> peer_numbers_;
    std::size_t last_ = 0;
};

/// Sorts boxes by source block, then destination block; what is equal keeps its order. O(n) for
/// many boxes.
void sort_by_blocks(std::vector<PlacedBox>& boxes, std::size_t first);

}  // namespace datamover::plan

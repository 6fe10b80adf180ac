// SPDX-License-Identifier: BSD-3-Clause
// In which order do the pieces of a pair of processes stand, whichever side derives them?
#include "part_builder.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace datamover::plan {

void PartBuilder::add(std::int64_t peer, std::int64_t term, std::int64_t sequence, Piece piece) {
    entries_.push_back({peer, term, sequence, std::move(piece)});
}

std::vector<PeerPart> PartBuilder::build() {
    const auto key = [](const Entry& e) {
        return std::make_tuple(e.peer, e.term, e.piece.source_block, e.piece.destination_block,
                               e.sequence);
    };
    const auto before = [&](const Entry& a, const Entry& b) { return key(a) < key(b); };
    if (!std::is_sorted(entries_.begin(), entries_.end(), before))
        std::sort(entries_.begin(), entries_.end(), before);
    std::vector<PeerPart> peers;
    for (Entry& e : entries_) {
        if (peers.empty() || peers.back().rank != e.peer) peers.push_back({e.peer, {}});
        peers.back().part.pieces.push_back(std::move(e.piece));
    }
    entries_.clear();
    return peers;
}

}  // namespace datamover::plan

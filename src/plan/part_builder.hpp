// SPDX-License-Identifier: BSD-3-Clause
// In which order do the pieces of a pair of processes stand, whichever side derives them?
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/pair_part.hpp"

namespace datamover::plan {

/// Collects the pieces that one process exchanges and sorts them into the canonical order: by peer,
/// then term, source block, destination block, and the order within those (`sequence`), all of
/// which both sides know.
class PartBuilder {
public:
    void add(std::int64_t peer, std::int64_t term, std::int64_t sequence, Piece piece);
    std::vector<PeerPart> build();

private:
    struct Entry {
        std::int64_t peer, term, sequence;
        Piece piece;
    };
    std::vector<Entry> entries_;
};

}  // namespace datamover::plan

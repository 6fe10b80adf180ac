// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a process's blocks that a move touches, for checks and their messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "conflicts.hpp"
#include "datamover/region.hpp"
#include "datamover/side.hpp"
#include "runs.hpp"

namespace datamover::plan {

/// The smallest region, in global indices, that contains what a piece takes from (brings into) its
/// block, ghosts included; the whole domain for runs that are no box.
Region section(const Layout& layout, const PairPart& part, const PartEntry& piece, Side side);

/// A piece, read (side source) or written, and the process it goes to or comes from. The part must
/// outlive it.
struct Touch {
    const BoundMemory* array = nullptr;
    Side side = Side::source;
    std::int64_t peer = 0;
    const PairPart* part = nullptr;
    std::size_t entry = 0;

    const PartEntry& piece() const { return part->entries()[entry]; }
};

/// Throw invalid_argument, naming process, blocks and regions.
[[noreturn]] void refuse_second_write(std::int64_t rank, const Touch& first, const Touch& second);
[[noreturn]] void refuse_read(std::int64_t rank, const Touch& reader, const Touch& writer);

/// Calls visit(const Touch&) for every piece that a process reads or writes.
template <class Visit>
void for_each_touch(const BoundParts& parts, Side side, Visit&& visit) {
    const bool reads = side == Side::source;
    const BoundMemory& array = reads ? parts.source : parts.destination;
    for (const PeerPart& peer : reads ? *parts.outgoing : *parts.incoming)
        for (std::size_t entry = 0; entry < peer.part.entries().size(); ++entry)
            visit(Touch{&array, side, peer.rank, &peer.part, entry});
}

}  // namespace datamover::plan

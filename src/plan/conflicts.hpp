// SPDX-License-Identifier: BSD-3-Clause
// Exact check for elements written twice, or read and written, and the pieces that it looks at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datamover/advanced/pair_part.hpp"
#include "datamover/memory_layout.hpp"
#include "datamover/region.hpp"
#include "datamover/side.hpp"
#include "plan/redistribution.hpp"

namespace datamover::plan {

/// Where a process keeps its blocks of one array.
struct BoundMemory {
    const Layout* layout = nullptr;
    const MemoryLayout* memory = nullptr;
    std::uintptr_t base = 0;  ///< address that the memory's offsets count from
    std::int64_t elem_bytes = 0;
};

/// What a process reads of one array and writes to another. A move has one or several.
struct BoundParts {
    BoundMemory source;
    const std::vector<PeerPart>* outgoing = nullptr;
    BoundMemory destination;
    const std::vector<PeerPart>* incoming = nullptr;
    /// One array's ghosts are filled from its blocks: nothing that is read is written.
    bool halo_in_place = false;
};

/// Looks at every byte that process `rank` reads and writes in one move: addresses are compared, so
/// that blocks and arrays that share memory are seen. Throws invalid_argument naming process,
/// blocks and regions when a byte is written twice (unless `combines`: contributions are then
/// combined) or written and read; out_of_range as compile does. Local. Time and memory follow the
/// bytes that are moved, about one bit each.
void check_conflicts(std::span<const BoundParts> move, std::int64_t rank, bool combines);

/// As far as little time decides it, the same of bytes that are written and read: never refuses
/// what check_conflicts takes. Boxes and products are decided exactly; single elements, and what
/// would take more than some comparisons per piece, are taken. O(arrays²) where no two arrays share
/// memory, else O(n log n) for n pieces.
void check_overlaps(std::span<const BoundParts> move, std::int64_t rank);

// Pieces of a process's blocks that a move touches, for checks and their messages.

/// The smallest region, in global indices, that holds what a piece takes from (brings into) its
/// block, including ghosts. The piece must not be a list of boxes.
Region section(const Layout& layout, const Piece& piece, Side side);

/// A piece about one pair of blocks, read (side source) or written, and the process it goes to or
/// comes from.
struct Touch {
    const BoundMemory* array = nullptr;
    Side side = Side::source;
    std::int64_t peer = 0;
    Piece piece;
};

/// Throws invalid_argument, naming process, blocks and regions.
[[noreturn]] void refuse_read(std::int64_t rank, const Touch& reader, const Touch& writer);

/// Calls visit(const Touch&) for every pair of blocks that a process reads or writes: boxes come
/// one by one, as products.
template <class Visit>
void for_each_touch(const BoundParts& parts, Side side, Visit&& visit) {
    const bool reads = side == Side::source;
    const BoundMemory& array = reads ? parts.source : parts.destination;
    for (const PeerPart& peer : reads ? *parts.outgoing : *parts.incoming)
        for (const Piece& piece : peer.part.pieces) {
            const auto* list = std::get_if<BoxList>(&piece.content);
            if (!list) {
                visit(Touch{&array, side, peer.rank, piece});
                continue;
            }
            for (const PlacedBox& box : list->boxes)
                visit(Touch{&array, side, peer.rank, Piece{product_of(box, list->shape_of(box))}});
        }
}

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Exact check for elements written twice, or read and written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datamover/advanced/pair_part.hpp"
#include "datamover/memory_layout.hpp"

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

}  // namespace datamover::plan

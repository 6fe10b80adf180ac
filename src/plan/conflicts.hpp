// SPDX-License-Identifier: BSD-3-Clause
// Does a process's part of a plan write an element twice, or read what it writes?
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/memory_layout.hpp"
#include "datamover/pair_part.hpp"

namespace datamover::plan {

/// Where a process keeps its blocks of one array.
struct BoundMemory {
    const Layout* layout = nullptr;
    const MemoryLayout* memory = nullptr;
    std::uintptr_t base = 0;  ///< address that the memory's offsets count from
    std::int64_t elem_bytes = 0;
};

/// What process `rank` reads of `source` and writes to `destination`. Addresses are compared, so
/// that blocks and arrays that share memory are seen. Throws invalid_argument naming process,
/// blocks and regions when a byte is written twice (unless `combines`: contributions are then
/// combined) or written and read; out_of_range as compile does. Local. Time and memory follow the
/// bytes that are moved, about one bit each.
void check_conflicts(const BoundMemory& source, const std::vector<PeerPart>& outgoing,
                     const BoundMemory& destination, const std::vector<PeerPart>& incoming,
                     std::int64_t rank, bool combines);

/// The smallest region, in global indices, that holds what a piece takes from (brings into) its
/// block, of a list what its first box does; ghosts included.
Region source_section(const Layout& source, const Piece& piece);
Region destination_section(const Layout& destination, const Piece& piece);

}  // namespace datamover::plan

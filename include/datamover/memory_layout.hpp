// SPDX-License-Identifier: BSD-3-Clause
// Memory layouts: the byte address of each element of a process's blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/export.h"
#include "datamover/layout.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// The memory of one block: the element with local index x is at offset_bytes +
/// Σ x_d · strides_bytes_d, relative to the array's base. Legal local indices (including ghosts, so
/// they may be negative) are those of `valid`.
struct BlockMemory {
    std::int64_t block = 0;
    std::int64_t offset_bytes = 0;
    Point strides_bytes;
    Region valid;

    bool operator==(const BlockMemory&) const = default;
};

/// The blocks of one process's part of an array, ascending by number, and the bytes that they span.
struct MemoryLayout {
    std::vector<BlockMemory> blocks;
    std::int64_t begin_bytes = 0;  ///< the lowest address used, from the base
    std::int64_t end_bytes = 0;    ///< one past the highest

    /// Return the memory of a block, or nullptr if this process does not hold it. O(1) if blocks
    /// are evenly distributed, otherwise O(log n).
    const BlockMemory* find(std::int64_t block) const;

    bool operator==(const MemoryLayout&) const = default;
};

/// Check the addresses of a block. Throws out_of_range if an element, including ghosts, would have
/// an address beyond 2^62. O(dimensions).
void check_addresses(const BlockMemory& memory, std::int64_t elem_bytes);

/// The order of the elements of a dense block.
enum class ElementOrder { row_major, column_major };

/// Return the default memory of a rank: dense blocks, one after the other, each starting at a
/// multiple of 64 bytes, with `ghost_lower`/`ghost_upper` extra elements per side of each dimension
/// (empty points: none). Throws invalid_argument for negative ghosts, out_of_range for sizes beyond
/// 63 bits.
MemoryLayout dense_memory(const Layout& layout, std::int64_t rank, std::int64_t elem_bytes,
                          ElementOrder order = ElementOrder::row_major,
                          const Point& ghost_lower = {}, const Point& ghost_upper = {});

}  // namespace datamover

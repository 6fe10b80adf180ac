// SPDX-License-Identifier: BSD-3-Clause
// Compilation of a pair's part to an address relation between two memories; lengths of its runs.
#pragma once

#include <cstdint>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/advanced/pair_part.hpp"
#include "datamover/memory_layout.hpp"
#include "relation/extent.hpp"

namespace datamover::plan {

/// In which order of dimensions the elements of a product stand in a message. Both sides must use
/// the same one.
enum class MessageOrder { row_major, column_major };

/// One side of a relation: the memory of a process, or (without memory) the positions in a message.
struct RelationSide {
    const Layout* layout = nullptr;
    const MemoryLayout* memory = nullptr;  ///< nullptr: the message
    std::int64_t elem_bytes = 0;
    std::int64_t rank = 0;  ///< for error texts
};

/// The lowest and the highest local position of an axis that has elements.
Extent positions_of(const PieceAxis& axis, Side side);

/// The relation of a part between two memories, or between a memory and a message. Throws
/// out_of_range when a section reaches outside what a block's memory holds (ghosts too shallow).
/// The cost follows the sizes of the tables, but for index pieces the elements, and for ranges
/// pieces the runs, of which those that repeat at equal distances take memory together.
AddressRelation compile(const PairPart& part, const RelationSide& source,
                        const RelationSide& destination,
                        MessageOrder order = MessageOrder::row_major);

// Lengths of the contiguous runs of memory in a part.

/// The mean length in bytes of the contiguous runs of a part in its source's (else destination's)
/// memory, worked out from the tables; at least one element. Equal on all processes that know the
/// memory layout. O(size of the tables).
std::int64_t mean_run_bytes(const PairPart& part, const MemoryLayout& memory, Side side,
                            std::int64_t elem_bytes);

/// Whether both memories are fastest along the same axes: only then long runs of both come in the
/// same order. O(axes).
bool fastest_alike(const PairPart& part, const MemoryLayout& source,
                   const MemoryLayout& destination);

}  // namespace datamover::plan

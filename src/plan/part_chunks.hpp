// SPDX-License-Identifier: BSD-3-Clause
// Chunks of a pair's part that fit a small buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compile.hpp"
#include "datamover/advanced/pair_part.hpp"
#include "datamover/memory_layout.hpp"
#include "datamover/side.hpp"

namespace datamover::plan {

/// How a product is cut: into ranges of the message, or into tiles whose rows are long on both
/// sides also where the axes are permuted.
enum class ChunkForm { ranges, tiles };

/// One chunk: a shape, moved by so many positions along the dimensions of its one piece (by
/// nothing where the shape has several pieces: the points then have no dimensions).
struct PartChunk {
    std::size_t shape = 0;
    PerSide<Point> shift;
};

/// A part as a sequence of chunks, in an order that both sides derive. Few shapes stand for many
/// chunks: where a table is periodic, all chunks but those at its end have the same shape.
struct ChunkedPart {
    std::vector<PairPart> shapes;
    std::vector<std::int64_t> shape_elems;
    std::vector<PartChunk> chunks;
};

/// Cuts a part into chunks of at most `most_elems` (>= 1) elements; one chunk where it is not
/// larger. Both sides of a pair get the same chunks. O(size of the tables + chunks), for index
/// pieces O(elements), for ranges pieces O(runs).
ChunkedPart cut_into_chunks(const PairPart& part, std::int64_t most_elems, MessageOrder order,
                            ChunkForm form);

/// By how many bytes a chunk lies away from its shape in the memory of a side.
std::int64_t shift_bytes(const ChunkedPart& part, const PartChunk& chunk, Side side,
                         const MemoryLayout& memory);

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Chunks of a pair's part that fit a small buffer: their form, length and order.
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

/// One chunk: a shape, moved by so many positions along the dimensions of its one product, if it is
/// one.
struct PartChunk {
    std::size_t shape = 0;
    PerSide<Point> shift{Point::filled(max_dims, 0), Point::filled(max_dims, 0)};
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

// Piece length of a message that is packed and unpacked at the same time.

/// Of a message of `message_bytes`: `piece_bytes`, and more for messages so long that this would
/// make more than 1,024 of them, since each piece costs time and memory while a mover is bound.
/// Never more than `most_bytes`. Both sides of a pair know the numbers, and so cut alike.
std::int64_t pipelined_piece_bytes(std::int64_t message_bytes, std::int64_t most_bytes,
                                   std::int64_t piece_bytes = 64 << 10);

// Axis order of a part that keeps the runs of a memory whole.

/// The part with the axes of its boxes and products ordered as the memory of one side is, the
/// slowest outermost. Blocks that the memory does not hold stay as they are.
PairPart ordered_along(PairPart part, const MemoryLayout& memory, Side side);

}  // namespace datamover::plan

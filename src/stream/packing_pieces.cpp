// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a long message, each packed, checksummed and sent while it is in the processor's
// caches.
#include "stream/packing_pieces.hpp"

#include <algorithm>

#include "plan/part_chunks.hpp"

namespace datamover::stream {
namespace {

/// A message has at most about so many pieces.
constexpr std::int64_t most_pieces = 1 << 10;

}  // namespace

PackingPieces::PackingPieces(const PairPart& part, const plan::RelationSide& from,
                             const plan::RelationSide& message) {
    const std::int64_t elem_bytes = from.elem_bytes, elems = part.size();
    if (elems <= least_bytes / elem_bytes) return;
    const std::int64_t most_elems =
        std::max({std::int64_t{1}, most_bytes / elem_bytes, elems / most_pieces});
    const plan::ChunkedPart chunked = plan::cut_into_chunks(
        part, most_elems, plan::MessageOrder::row_major, plan::ChunkForm::ranges);
    for (const PairPart& shape : chunked.shapes)
        shapes_.push_back(plan::compile(shape, from, message));
    for (const plan::PartChunk& chunk : chunked.chunks)
        pieces_.push_back({chunk.shape,
                           plan::shift_bytes(chunked, chunk, Side::source, *from.memory),
                           chunked.shape_elems[chunk.shape] * elem_bytes});
}

std::vector<PackingPieces::Bound> PackingPieces::bind(SourceMemory source,
                                                      std::byte* message) const {
    std::vector<Bound> bound;
    bound.reserve(pieces_.size());
    std::size_t at = 0;
    for (const Piece& piece : pieces_) {
        const AddressBounds from{source.bounds.begin_bytes - piece.source_shift_bytes,
                                 source.bounds.end_bytes - piece.source_shift_bytes};
        std::byte* const to = message + at;
        at += static_cast<std::size_t>(piece.bytes);
        bound.push_back({shapes_[piece.shape].bind_gather(source.data + piece.source_shift_bytes,
                                                          from, to, {0, piece.bytes}),
                         at});
    }
    return bound;
}

}  // namespace datamover::stream

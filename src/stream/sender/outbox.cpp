// SPDX-License-Identifier: BSD-3-Clause
// Packing of messages into boxes, and assignment of connections to the boxes of their receivers.
#include "stream/sender/outbox.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"
#include "plan/part_chunks.hpp"
#include "stream/sender/data_sender.hpp"
#include "stream/wire/message_words.hpp"

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

/// A message, with what of it is still to be packed.
struct Outbox::Packing {
    MessagePtr message;
    std::vector<PackingPieces::Bound> left;
};

Outbox::Outbox(int pathways, SendingHabits habits) : pathways_(pathways), habits_(habits) {
    if (pathways < 1 || pathways > max_pathways)
        throw make_error(ErrorCode::invalid_argument, "pathways is ", pathways,
                         "; it must be 1 to ", max_pathways);
}

void Outbox::open(const std::string& key, int nprocs) {
    Boxes boxes;
    for (int rank = 0; rank < nprocs; ++rank) boxes.push_back(std::make_shared<Box>());
    const std::lock_guard lock(lock_);
    boxes_.emplace(key, std::move(boxes));
}

void Outbox::pack(const std::string& key, std::uint64_t place, std::uint32_t array,
                  std::span<const Outgoing> outgoing, SourceMemory source, std::int64_t number) {
    const Boxes boxes = boxes_of(key);
    std::vector<Packing> messages;
    for (const Outgoing& one : outgoing)
        messages.push_back(packed(*boxes.at(static_cast<std::size_t>(one.peer)), one, source));
    for (std::size_t n = 0; n < messages.size(); ++n)
        put(*boxes[static_cast<std::size_t>(outgoing[n].peer)], place, array, messages[n], number);
}

/// Packs what goes to one process, except pieces, which are packed when it is put.
Outbox::Packing Outbox::packed(Box& box, const Outgoing& outgoing, SourceMemory source) {
    const AddressRelation& relation = *outgoing.relation;
    const auto bytes = static_cast<std::size_t>(relation.size()) *
                       static_cast<std::size_t>(relation.source_elem_bytes());
    Packing packing{box.memory(bytes), {}};
    std::byte* const memory = packing.message->bytes().data();
    if (outgoing.pieces != nullptr) {
        packing.left = outgoing.pieces->bind(source, memory);
    } else {
        const AddressBounds all{0, static_cast<std::int64_t>(bytes)};
        relation.bind_gather(source.data, source.bounds, memory, all)();
    }
    return packing;
}

/// Puts a message, and packs its pieces while it is sent. Everything that can fail is done before.
void Outbox::put(Box& box, std::uint64_t place, std::uint32_t array, const Packing& packing,
                 std::int64_t number) {
    const auto pack_piece = [&packing](const PackingPieces::Bound& piece) {
        piece.pack();
        packing.message->set_packed(piece.end);
    };
    if (!packing.left.empty()) pack_piece(packing.left.front());
    box.put(place, array, packing.message, number);
    for (std::size_t n = 1; n < packing.left.size(); ++n) {
        pack_piece(packing.left[n]);
        box.go_on(n + 1 == packing.left.size());
    }
}

void Outbox::hear() {
    for (const auto& box : all_boxes()) box->hear();
}

void Outbox::leave() {
    for (const auto& box : all_boxes()) box->leave();
}

void Outbox::drop(const std::string& key, std::uint64_t place) {
    for (const auto& box : boxes_of(key)) box->drop(place);
}

void Outbox::end(const std::string& key) {
    for (const auto& box : boxes_of(key)) box->end_all();
}

void Outbox::forget(const std::string& key) {
    const Boxes boxes = boxes_of(key);
    {
        const std::lock_guard lock(lock_);
        boxes_.erase(key);
    }
    for (const auto& box : boxes) box->end_all();
}

void Outbox::serve(const Connection& connection, const std::string& key, std::int64_t rank,
                   std::int64_t pathway, TakenCall taken) {
    if (pathway < 0 || pathway >= pathways_)
        throw make_error(ErrorCode::io, "the connection names pathway ", pathway,
                         ", which the stream does not have");
    const std::shared_ptr<Box> box = box_of(key, rank);
    DataSender(connection, *box, static_cast<int>(pathway), pathways_, habits_, bytes_sent_,
               std::move(taken))
        .serve();
}

std::shared_ptr<Box> Outbox::box_of(const std::string& key, std::int64_t rank) {
    const Boxes boxes = boxes_of(key);
    if (boxes.empty())
        throw Error(ErrorCode::io, "the connection names a consumer that is unknown or has left");
    if (rank < 0 || rank >= static_cast<std::int64_t>(boxes.size()))
        throw make_error(ErrorCode::io, "the connection names process ", rank,
                         ", which the consumer does not have");
    return boxes[static_cast<std::size_t>(rank)];
}

Outbox::Boxes Outbox::boxes_of(const std::string& key) {
    const std::lock_guard lock(lock_);
    const auto found = boxes_.find(key);
    return found != boxes_.end() ? found->second : Boxes();
}

std::vector<std::string> Outbox::keys() {
    const std::lock_guard lock(lock_);
    std::vector<std::string> names;
    for (const auto& [key, boxes] : boxes_) names.push_back(key);
    return names;
}

Outbox::Boxes Outbox::all_boxes() {
    const std::lock_guard lock(lock_);
    Boxes all;
    for (const auto& [key, boxes] : boxes_) all.insert(all.end(), boxes.begin(), boxes.end());
    return all;
}

void Outbox::free_all() {
    for (const auto& box : all_boxes()) {
        box->advance(std::numeric_limits<std::uint64_t>::max());
        box->free_unused();
    }
}

void Outbox::free_unused() {
    for (const auto& box : all_boxes()) box->free_unused();
}

std::uint64_t Outbox::bytes_kept() {
    std::uint64_t bytes = 0;
    for (const auto& box : all_boxes()) bytes += box->bytes_kept();
    return bytes;
}

std::uint64_t Outbox::bytes_held() {
    std::uint64_t bytes = 0;
    for (const auto& box : all_boxes()) bytes += box->bytes_held();
    return bytes;
}

}  // namespace datamover::stream

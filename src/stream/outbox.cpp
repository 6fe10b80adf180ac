// SPDX-License-Identifier: BSD-3-Clause
// How do packed messages get into boxes, and connections to the box of their receiving process?
#include "stream/outbox.hpp"

#include <limits>
#include <utility>
#include <vector>

#include "datamover/error.hpp"
#include "stream/data_sender.hpp"
#include "stream/message_words.hpp"

namespace datamover::stream {
namespace {

/// A message, with what of it is still to be packed.
struct Packing {
    MessagePtr message;
    std::vector<PackingPieces::Bound> left;
};

/// Packs what goes to one process, but for a long message, which is packed after it was put.
Packing packed(Box& box, const Outgoing& outgoing, SourceMemory source) {
    const AddressRelation& relation = *outgoing.relation;
    const auto bytes = static_cast<std::size_t>(relation.size()) *
                       static_cast<std::size_t>(relation.source_elem_bytes());
    Packing packing{box.memory(bytes), {}};
    const std::span<std::byte> memory = packing.message->bytes();
    const bool is_sent = packing.message->segment() == nullptr;
    if (outgoing.pieces != nullptr &&
        !(is_sent && bytes < static_cast<std::size_t>(PackingPieces::least_sent_bytes))) {
        packing.left = outgoing.pieces->bind(source, memory);
    } else {
        const AddressBounds all{0, static_cast<std::int64_t>(bytes)};
        relation.bind_gather(source.data, source.bounds, memory.data(), all)();
    }
    return packing;
}

/// Puts a message, and packs what is left of it while it is sent. What could fail is done before.
void put(Box& box, std::uint64_t place, std::uint32_t array, Packing packing, std::int64_t number) {
    const MessagePtr message = packing.message;
    if (packing.left.empty()) return box.put(place, array, std::move(packing.message), number);
    message->set_packed(0);
    box.put(place, array, std::move(packing.message), number);
    for (const PackingPieces::Bound& piece : packing.left) {
        piece.pack();
        message->set_packed(piece.end);
        box.go_on(piece.end == message->bytes().size());
    }
}

}  // namespace

Outbox::Outbox(int pathways, bool may_hear_later)
    : pathways_(pathways), may_hear_later_(may_hear_later) {
    if (pathways < 1 || pathways > max_pathways)
        throw Error(ErrorCode::invalid_argument, "pathways are " + std::to_string(pathways) +
                                                     ", they must be 1 to " +
                                                     std::to_string(max_pathways));
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
        put(*boxes[static_cast<std::size_t>(outgoing[n].peer)], place, array,
            std::move(messages[n]), number);
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
        throw Error(ErrorCode::io, "the stream has no such pathway");
    const std::shared_ptr<Box> box = box_of(key, rank);
    DataSender(connection, *box, static_cast<int>(pathway), pathways_, may_hear_later_, bytes_sent_,
               std::move(taken))
        .serve();
}

std::shared_ptr<Box> Outbox::box_of(const std::string& key, std::int64_t rank) {
    const Boxes boxes = boxes_of(key);
    if (boxes.empty()) throw Error(ErrorCode::io, "no consumer has this key");
    if (rank < 0 || rank >= static_cast<std::int64_t>(boxes.size()))
        throw Error(ErrorCode::io, "the consumer has no process " + std::to_string(rank));
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

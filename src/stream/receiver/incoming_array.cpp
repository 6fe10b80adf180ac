// SPDX-License-Identifier: BSD-3-Clause
// Assembly of messages from connections and shared memory, and their unpacking.
#include "stream/receiver/incoming_array.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "datamover/error.hpp"
#include "geometry/make_error.hpp"
#include "plan/compile.hpp"
#include "stream/wire/crc32c.hpp"
#include "stream/wire/plan_between.hpp"

namespace datamover::stream {

std::span<const std::byte> IncomingMessage::bytes() const {
    if (segment_ != nullptr) return segment_->memory().subspan(begin_, bytes_);
    return {memory_.get(), bytes_};
}

void IncomingMessage::go_on(std::uint64_t offset, std::uint64_t count, int pathway, int pathways) {
    const auto [begin, end] = share_of(bytes_, pathway, pathways);
    std::uint64_t& passed = passed_[static_cast<std::size_t>(pathway)];
    if (offset != begin + passed || count == 0 || count > std::min(chunk_bytes, end - offset))
        throw Error(ErrorCode::peer_failed, "it sent a part of a message out of order");
    passed += count;
}

std::span<std::byte> IncomingMessage::place(std::uint64_t offset, std::uint64_t count) {
    if (segment_ != nullptr)
        throw Error(ErrorCode::peer_failed, "it sent a message in more than one place");
    if (memory_ == nullptr) memory_ = pool_->take(bytes_);
    return {memory_.get() + offset, count};
}

/// Another processor has written them: they are fetched from its caches once.
std::uint32_t IncomingMessage::taken_from(std::shared_ptr<const SegmentView> segment,
                                          std::uint64_t begin, std::uint64_t offset,
                                          std::uint64_t count) {
    const std::span<const std::byte> there = segment->memory().subspan(begin + offset, count);
    if (memory_ != nullptr) return copy_with_crc32c(there, memory_.get() + offset);
    if (segment_ == nullptr) {
        segment_ = std::move(segment);
        begin_ = begin;
    } else if (segment_ != segment || begin_ != begin) {
        throw Error(ErrorCode::peer_failed, "it sent a message in more than one place");
    }
    return crc32c(there);
}

namespace {

/// Does something about an array, whose name stands before what is wrong with it.
template <class Work>
auto naming(const std::string& array, const Work& work) {
    try {
        return work();
    } catch (const Error& error) {
        throw make_error(error.code(), "array '", array, "': ", error.what());
    }
}

}  // namespace

IncomingArray::IncomingArray(const KnownArray& known, const WantedArray& wanted, int rank)
    : name_(known.name),
      type_(known.type),
      wanted_(wanted.layout),
      rank_(rank),
      plan_(naming(name_, [&] { return plan_between(known.layout, wanted.layout); })) {
    if (!wanted.dtype.empty() && wanted.dtype != type_.text)
        throw make_error(ErrorCode::wrong_type, "array '", name_, "' has dtype ", type_.text,
                         "; its destination has ", wanted.dtype);
    for (const PeerPart& peer : naming(name_, [&] { return plan_.incoming(rank); })) {
        std::int64_t bytes = 0;
        if (__builtin_mul_overflow(peer.part.size(), type_.elem_bytes, &bytes))
            throw Error(ErrorCode::out_of_range, "a message has more than 2^63 bytes");
        sizes_[static_cast<int>(peer.rank)] = static_cast<std::uint64_t>(bytes);
    }
    if (!wanted.comes_in_new_memory) return;
    new_memory_ = dense_memory(wanted_, rank, type_.elem_bytes);
    compile_for(*new_memory_);
    for (const auto& [producer, relation] : relations_)
        if (relation.destination_contiguous())
            places_[producer] = static_cast<std::size_t>(relation.destination_bounds().begin_bytes);
}

std::size_t IncomingArray::new_bytes() const {
    return new_memory_ ? static_cast<std::size_t>(new_memory_->end_bytes) : 0;
}

std::optional<std::size_t> IncomingArray::place_of(int producer) const {
    const auto found = places_.find(producer);
    return found != places_.end() ? std::optional(found->second) : std::nullopt;
}

/// Works the relations out again where the memory is another than the last time.
void IncomingArray::compile_for(const MemoryLayout& memory) {
    if (memory_ && *memory_ == memory) return;
    memory_.reset();
    relations_.clear();
    const plan::RelationSide to{&plan_.destination(), &memory, type_.elem_bytes, rank_};
    for (const PeerPart& peer : plan_.incoming(rank_)) {
        const plan::RelationSide message{&plan_.source(), nullptr, type_.elem_bytes, peer.rank};
        relations_.emplace_back(static_cast<int>(peer.rank), plan::compile(peer.part, message, to));
    }
    memory_ = memory;
}

void IncomingArray::unpack(const ArrayMessages& messages, const DestinationMemory& destination) {
    compile_for(*destination.memory);
    for (const auto& [producer, relation] : relations_) {
        const auto bytes = messages.by_producer.at(producer)->bytes();
        const AddressBounds all{0, static_cast<std::int64_t>(bytes.size())};
        relation.bind_scatter(bytes.data(), all, destination.data, destination.bounds)();
    }
}

void IncomingArray::unpack_rest(const ArrayMessages& messages) {
    compile_for(*new_memory_);
    for (const auto& [producer, relation] : relations_) {
        const std::byte* const message = messages.by_producer.at(producer)->bytes().data();
        const std::optional<std::size_t> place = place_of(producer);
        if (!place || message != messages.new_memory.get() + *place)
            relation.scatter(message, messages.new_memory.get());
    }
}

}  // namespace datamover::stream

// SPDX-License-Identifier: BSD-3-Clause
// Assembly of messages from connections and shared memory, and their unpacking. Chunks are
// verified; no input is trusted.
#include "stream/receiver/incoming_data.hpp"

#include <algorithm>

#include "datamover/error.hpp"
#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "plan/compile.hpp"
#include "stream/receiver/incoming_steps.hpp"

namespace datamover::stream {

std::span<const std::byte> IncomingMessage::bytes() const {
    if (segment_ != nullptr) return segment_->subspan(begin_, bytes_);
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
    if (memory_ == nullptr) memory_ = pool_.take_bytes(bytes_);
    return {memory_.get() + offset, count};
}

/// Another processor has written them: they are fetched from its caches once.
std::uint32_t IncomingMessage::taken_from(SegmentView segment, std::uint64_t begin,
                                          std::uint64_t offset, std::uint64_t count) {
    const std::span<const std::byte> there = segment->subspan(begin + offset, count);
    if (memory_ != nullptr) return memory::copy_with_crc32c(there, memory_.get() + offset);
    if (segment_ == nullptr) {
        segment_ = std::move(segment);
        begin_ = begin;
    } else if (segment_ != segment || begin_ != begin) {
        throw Error(ErrorCode::peer_failed, "it sent a message in more than one place");
    }
    return memory::crc32c(there);
}

namespace {

/// Other connections have their turn after so many reads.
constexpr int reads_in_turn = 16;

}  // namespace

IncomingArray::IncomingArray(const SentArray& sent, const WantedArray& wanted, int rank)
    : sent_(sent), wanted_(wanted.layout), rank_(rank) {
    try {
        plan_ = plan_between(sent.layout, wanted.layout);
        for (const PeerPart& peer : plan_.incoming(rank))
            parts_[static_cast<int>(peer.rank)].bytes =
                static_cast<std::uint64_t>(geometry::multiply(peer.part.size(), sent.elem_bytes));
    } catch (const Error& error) {
        throw make_error(error.code(), "array '", sent.name, "': ", error.what());
    }
    if (!wanted.dtype.empty() && wanted.dtype != sent.dtype)
        throw make_error(ErrorCode::wrong_type, "array '", sent.name, "' has dtype ", sent.dtype,
                         "; its destination has ", wanted.dtype);
    if (!wanted.comes_in_new_memory) return;
    new_memory_ = dense_memory(wanted_, rank, sent.elem_bytes);
    compile_for(*new_memory_);
    for (auto& [producer, part] : parts_)
        if (part.relation.destination_contiguous())
            part.place = static_cast<std::size_t>(part.relation.destination_bounds().begin_bytes);
}

std::size_t IncomingArray::new_bytes() const {
    return new_memory_ ? static_cast<std::size_t>(new_memory_->end_bytes) : 0;
}

/// Works the relations out again where the memory is another than the last time.
void IncomingArray::compile_for(const MemoryLayout& memory) {
    if (memory_ && *memory_ == memory) return;
    memory_.reset();
    const plan::RelationSide to{&plan_.destination(), &memory, elem_bytes(), rank_};
    for (const PeerPart& peer : plan_.incoming(rank_)) {
        const plan::RelationSide message{&plan_.source(), nullptr, elem_bytes(), peer.rank};
        parts_.at(static_cast<int>(peer.rank)).relation = plan::compile(peer.part, message, to);
    }
    memory_ = memory;
}

void IncomingArray::unpack(const ArrayMessages& messages, const DestinationMemory& destination) {
    compile_for(*destination.memory);
    for (const auto& [producer, part] : parts_) {
        const auto bytes = messages.by_producer.at(producer)->bytes();
        if (part.place && bytes.data() == destination.data + *part.place) continue;
        const AddressBounds all{0, static_cast<std::int64_t>(bytes.size())};
        part.relation.bind_scatter(bytes.data(), all, destination.data, destination.bounds)();
    }
}

DataReceiver::DataReceiver(std::shared_ptr<const Connection> connection, int producer, int pathway,
                           int pathways, ReceptionCounters& counters)
    : Link(std::move(connection)),
      producer_(producer),
      pathway_(pathway),
      pathways_(pathways),
      counters_(counters) {
    ++counters_.connections;
    counters_.connections_local += connection_->is_local();
}

void DataReceiver::grant(std::uint64_t taken, std::uint64_t may, bool alone) {
    send(bytes_of_header(sealed(Grant{.taken = taken, .may = may, .alone = alone})));
}

void DataReceiver::receive(IncomingSteps& steps) {
    try {
        if (is_paused_) begin(steps);
        for (int n = 0; n < reads_in_turn && !is_paused_ && receive_once(steps); ++n) {
        }
    } catch (const Error& error) {
        throw make_error(error.code(), "sending process ", producer_, ": ", error.what());
    }
}

/// Whether more may have come.
bool DataReceiver::receive_once(IncomingSteps& steps) {
    const std::span<std::byte> header = std::span(header_).subspan(header_bytes_);
    const std::size_t wanted = body_.size() + header.size();
    std::size_t count = 0;
    try {
        count = connection_->receive(body_, header, &files_).value_or(0);
    } catch (const Error&) {
        has_ended_ = true;
    }
    if (count == 0) return false;
    if (files_.size() > Memory::max_segments)
        throw make_error(ErrorCode::peer_failed, "it shared more than ", Memory::max_segments,
                         " memory segments");
    const bool is_all = count == wanted;
    if (!body_.empty()) {
        const std::size_t of_body = std::min(count, body_.size());
        body_ = body_.subspan(of_body);
        count -= of_body;
        if (!body_.empty()) return is_all;
        const auto& [message, chunk] = *coming_;
        check(steps, memory::crc32c(message->bytes().subspan(chunk.offset, chunk.bytes)));
    }
    header_bytes_ += count;
    if (header_bytes_ < header_.size()) return is_all;
    begin(steps);
    return true;
}

/// Reads a header and finds the place of its bytes.
void DataReceiver::begin(IncomingSteps& steps) {
    const auto header = header_at<ChunkHeader>(header_);
    const auto message = steps.find(producer_, header);
    is_paused_ = message == nullptr;
    if (is_paused_) return;
    header_bytes_ = 0;
    message->go_on(header.offset, header.bytes, pathway_, pathways_);
    coming_ = Coming{message, header};
    if (!header.is_shared()) {
        body_ = message->place(header.offset, header.bytes);
        return;
    }
    auto found = segment(header.segment);
    const std::uint64_t size = found->size();
    if (header.position < header.offset || message->size() > size ||
        header.position - header.offset > size - message->size())
        throw Error(ErrorCode::peer_failed,
                    "it sent a message that is longer than its shared memory");
    const std::uint64_t begins = header.position - header.offset;
    check(steps, message->taken_from(std::move(found), begins, header.offset, header.bytes));
}

SegmentView DataReceiver::segment(std::uint64_t number) {
    if (const auto found = segments_.find(number); found != segments_.end()) return found->second;
    if (files_.empty() || segments_.size() >= Memory::max_segments)
        throw Error(ErrorCode::peer_failed, "it sent a message in memory that it does not share");
    const Descriptor file = std::move(files_.front());
    files_.pop_front();
    return segments_.emplace(number, view_of_segment(file.get())).first->second;
}

/// Compares the checksum of the chunk that has come with what its header says.
void DataReceiver::check(IncomingSteps& steps, std::uint32_t checksum) {
    const auto [message, header] = *std::exchange(coming_, std::nullopt);
    counters_.bytes_received += header.bytes;
    if (checksum != header.checksum) {
        ++counters_.checksum_errors;
        throw make_error(ErrorCode::io, "bytes ", header.offset, " to ",
                         header.offset + header.bytes, " of its message with array ", header.array,
                         " of step ", header.place, " arrived damaged");
    }
    message->verified(header.bytes);
    if (message->is_whole()) steps.finished(header.place);
}

}  // namespace datamover::stream

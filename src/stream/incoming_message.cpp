// SPDX-License-Identifier: BSD-3-Clause
// Assembly of a message from bytes received over connections and bytes in shared memory.
#include "stream/incoming_message.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "datamover/error.hpp"
#include "stream/crc32c.hpp"

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

}  // namespace datamover::stream

// SPDX-License-Identifier: BSD-3-Clause
// Message: a packed message while it waits and while it is sent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "stream/message_words.hpp"
#include "stream/own_bytes.hpp"
#include "stream/segment.hpp"

namespace datamover::stream {

/// Memory for a message: this process's own, or a segment that a local receiver reads.
class Message {
public:
    /// Throws no_memory.
    explicit Message(std::size_t bytes);
    explicit Message(std::unique_ptr<Segment> segment)
        : segment_(std::move(segment)), bytes_(segment_->memory()), packed_(bytes_.size()) {}

    std::span<std::byte> bytes() const { return bytes_; }
    /// Null where the memory is this process's own.
    const Segment* segment() const { return segment_.get(); }

    /// How many of its bytes, from the first on, have been packed and may be read: all, unless
    /// `set_packed` said otherwise. Called by who packs and by who sends.
    std::size_t packed() const { return packed_.load(std::memory_order_acquire); }
    void set_packed(std::size_t bytes) const { packed_.store(bytes, std::memory_order_release); }

private:
    OwnBytes own_;
    std::unique_ptr<Segment> segment_;
    std::span<std::byte> bytes_;
    mutable std::atomic<std::size_t> packed_;
};

using MessagePtr = std::shared_ptr<const Message>;

/// A message of an array, at its step's place among those of one consumer.
struct KeptMessage {
    std::uint64_t place = 0;
    std::uint32_t array = 0;
    MessagePtr message;
    std::int64_t number = no_number;  ///< as ChunkHeader's
};

}  // namespace datamover::stream

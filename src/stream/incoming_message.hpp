// SPDX-License-Identifier: BSD-3-Clause
// IncomingMessage: the bytes of a message during its reception, with a record of the missing ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "stream/memory_pool.hpp"
#include "stream/message_words.hpp"
#include "stream/segment_view.hpp"

namespace datamover::stream {

/// A message of one sending process.
class IncomingMessage {
public:
    /// Takes memory from the pool, which must outlive it, where it has to have its own.
    IncomingMessage(std::uint64_t bytes, MemoryPool& pool)
        : bytes_(bytes), missing_(bytes), pool_(&pool) {}
    /// Comes where its elements belong.
    IncomingMessage(std::uint64_t bytes, std::shared_ptr<std::byte> memory)
        : bytes_(bytes), missing_(bytes), memory_(std::move(memory)) {}
    IncomingMessage(const IncomingMessage&) = delete;
    IncomingMessage& operator=(const IncomingMessage&) = delete;

    std::uint64_t size() const { return bytes_; }
    /// All of its bytes: this process's, or the sending one's.
    std::span<const std::byte> bytes() const;
    bool is_whole() const { return missing_ == 0; }
    /// So many bytes have come undamaged.
    void verified(std::uint64_t count) { missing_ -= count; }

    /// Takes note of the next chunk of a connection. Throws peer_failed where it is not the next.
    void go_on(std::uint64_t offset, std::uint64_t count, int pathway, int pathways);
    /// Where bytes are put that come over a connection; memory is taken for the first. Throws
    /// no_memory, and peer_failed if others of the message came in a segment.
    std::span<std::byte> place(std::uint64_t offset, std::uint64_t count);
    /// The checksum of bytes that lie in a segment, in which the message begins at `begin`. They
    /// are copied meanwhile where the message has memory. Throws peer_failed where they lie
    /// elsewhere than those before.
    std::uint32_t taken_from(std::shared_ptr<const SegmentView> segment, std::uint64_t begin,
                             std::uint64_t offset, std::uint64_t count);

private:
    const std::uint64_t bytes_;
    std::uint64_t missing_;
    MemoryPool* pool_ = nullptr;
    std::shared_ptr<std::byte> memory_;
    std::shared_ptr<const SegmentView> segment_;
    std::uint64_t begin_ = 0;                           ///< in the segment
    std::array<std::uint64_t, max_pathways> passed_{};  ///< bytes of each connection's share
};

}  // namespace datamover::stream

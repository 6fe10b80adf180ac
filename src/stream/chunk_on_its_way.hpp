// SPDX-License-Identifier: BSD-3-Clause
// The unsent rest of a chunk that a connection has begun to send.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "stream/connection.hpp"
#include "stream/message_words.hpp"

namespace datamover::stream {

/// A chunk: its header, then its bytes or a file descriptor of where they lie. Nothing here waits.
class ChunkOnItsWay {
public:
    ChunkOnItsWay() = default;
    ~ChunkOnItsWay() { close_file(); }
    ChunkOnItsWay(const ChunkOnItsWay&) = delete;
    ChunkOnItsWay& operator=(const ChunkOnItsWay&) = delete;

    /// Begins with another one. `body` must stay as it is until all is sent; `file`, if any, is
    /// closed then.
    void begin(const ChunkHeader& header, std::span<const std::byte> body, int file = -1);
    /// Sends what the system takes; whether any of it was taken. Throws peer_failed.
    bool send_more(const Connection& connection);
    bool is_sent() const { return header_.empty() && body_.empty(); }

private:
    void close_file();

    std::array<std::byte, ChunkHeader::size_bytes> words_{};
    std::span<const std::byte> header_, body_;  ///< what is left of both
    int file_ = -1;
};

}  // namespace datamover::stream

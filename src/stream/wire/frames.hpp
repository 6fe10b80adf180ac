// SPDX-License-Identifier: BSD-3-Clause
// Frames: control messages on a connection. Each begins with a header that contains its length, its
// CRC32C and the header's own CRC32C.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datamover/error.hpp"
#include "stream/wire/connection.hpp"
#include "stream/wire/fields.hpp"

namespace datamover::stream {

/// Most bytes of an error's words that are said, and read.
inline constexpr std::size_t max_words = 2000;

/// Words that are not too long, cut between characters.
std::string few_words(std::string words);
/// peer_failed where the code is none that is known. Throws io.
Error said_error(const Value& said);

/// What both ends say first.
inline constexpr int protocol_version = 8;
/// Of a frame from somebody who has not said yet who they are, from a consumer, and from a stream,
/// which may describe long lists of indices.
inline constexpr std::uint32_t max_greeting_bytes = 1 << 14, max_request_bytes = 1 << 22,
                               max_frame_bytes = 1 << 24;

/// A frame with these words.
std::string frame_of(std::string_view words);
/// Reads one frame, and nothing after it; `look` is called now and then meanwhile. Throws io where
/// what came is no frame, is too long or was damaged; peer_failed; timeout; what `look` throws.
Value read_frame(const Connection& connection, std::uint32_t max_bytes, Clock::time_point deadline,
                 const Look& look = {});

/// A connection over which frames go both ways. One thread reads, anybody sends. Nothing waits.
class FrameLink {
public:
    explicit FrameLink(std::shared_ptr<const Connection> connection)
        : connection_(std::move(connection)), unsent_(*connection_) {}

    /// Sends a frame. Where the connection has ended, whoever reads learns of it, not the caller.
    /// Whether the system took it all.
    bool say(std::string_view words);
    /// The frames that have come. Throws as read_frame, but for timeout.
    std::vector<Value> receive(std::uint32_t max_bytes);
    /// When the frame began to come that is not complete yet.
    std::optional<Clock::time_point> begun() const { return begun_; }
    /// Waits until all has been handed to the system, or the deadline; no more is sent.
    void finish(Clock::time_point deadline = Clock::now() + std::chrono::seconds(5));
    /// Ends the connection; what the system has taken still arrives.
    void end() const { connection_->end(); }
    int socket() const { return connection_->socket(); }
    Unsent& unsent() { return unsent_; }

private:
    std::vector<Value> take_frames(std::uint32_t max_bytes);

    const std::shared_ptr<const Connection> connection_;
    Unsent unsent_;
    std::vector<std::byte> come_;
    std::optional<Clock::time_point> begun_;
};

/// A frame of a consumer is complete within this time after its first byte. Changed by tests alone.
inline std::atomic<int> frame_milliseconds{30'000};

/// Such a connection with a thread that waits for what comes, at whose end the consumers are. What
/// the system does not take at once is left to that thread.
class ControlLink {
public:
    /// Throws io where the system has no event for it.
    explicit ControlLink(std::shared_ptr<const Connection> connection);
    ~ControlLink();
    ControlLink(const ControlLink&) = delete;
    ControlLink& operator=(const ControlLink&) = delete;

    /// As FrameLink::say.
    void say(std::string_view words);
    bool has_unsent() { return !link_.unsent().is_empty(); }
    /// Waits for at least one frame of a consumer, as long as it takes; one that has begun must be
    /// complete in time. Throws as read_frame.
    std::vector<Value> wait();
    /// As FrameLink::finish.
    void finish(Clock::time_point deadline = Clock::now() + std::chrono::seconds(5)) {
        link_.finish(deadline);
    }
    /// As FrameLink::end.
    void end() { link_.end(); }

private:
    std::chrono::milliseconds patience();

    FrameLink link_;
    int wake_;  ///< an eventfd
};

}  // namespace datamover::stream

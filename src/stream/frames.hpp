// SPDX-License-Identifier: BSD-3-Clause
// Frames: JSON messages on a connection. Each begins with a header that contains its length, its
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

#include "stream/connection.hpp"
#include "stream/json.hpp"
#include "stream/unsent.hpp"

namespace datamover::stream {

/// What both ends say first.
inline constexpr int protocol_version = 7;
/// Of a frame from somebody who has not said yet who they are, and of one that tells layouts.
inline constexpr std::uint32_t max_greeting_bytes = 1 << 14, max_frame_bytes = 1 << 24;

/// A frame with these words.
std::string frame_of(std::string_view words);
/// Reads one frame, and nothing after it; `look` is called now and then meanwhile. Throws io where
/// what came is no frame, is too long or was damaged; peer_failed; timeout; what `look` throws.
Json read_frame(const Connection& connection, std::uint32_t max_bytes, Clock::time_point deadline,
                const Look& look = {});

/// A connection over which frames go both ways. One thread reads, anybody sends. Nothing waits.
class FrameLink {
public:
    explicit FrameLink(std::shared_ptr<const Connection> connection)
        : connection_(std::move(connection)), unsent_(*connection_) {}

    /// Sends a frame. Where the connection has ended, whoever reads learns of it, not the caller.
    /// Whether the system took it all.
    bool say(std::string_view words);
    /// Sends several frames at once.
    bool say(const std::vector<std::string>& frames_words);
    /// The frames that have come. Throws as read_frame, but for timeout.
    std::vector<Json> receive(std::uint32_t max_bytes);
    /// When the frame began to come that is not complete yet.
    std::optional<Clock::time_point> begun() const { return begun_; }
    /// Of frames that are not complete.
    std::size_t held_bytes() const { return come_.size(); }
    /// Waits until all has been handed to the system, or the deadline; no more is sent.
    void finish(Clock::time_point deadline = Clock::now() + std::chrono::seconds(5));
    /// Throws io where a frame that has begun is longer than that.
    void check_begun(std::uint32_t max_bytes) const;
    /// Ends the connection; what the system has taken still arrives.
    void end() const { connection_->end(); }
    int socket() const { return connection_->socket(); }
    Unsent& unsent() { return unsent_; }

private:
    std::vector<Json> take_frames(std::uint32_t max_bytes);

    const std::shared_ptr<const Connection> connection_;
    Unsent unsent_;
    std::vector<std::byte> come_;
    std::optional<Clock::time_point> begun_;
};

/// What a stream spends on strangers who send frames a byte at a time, over many connections.
struct FrameLimits {
    std::chrono::milliseconds pause{30'000};   ///< within a frame
    std::chrono::milliseconds whole{300'000};  ///< of a frame, from its first byte
    /// Of unfinished frames of all connections together. Short ones are read all the same.
    std::size_t held_bytes = std::size_t{1} << 27;
    std::atomic<std::size_t> held{0};
};

/// Such a connection with a thread that waits for what comes, at whose end the consumers are. What
/// the system does not take at once is left to that thread.
class ControlLink {
public:
    /// The limits are those of several connections. Throws io where the system has no event for it.
    ControlLink(std::shared_ptr<const Connection> connection, std::shared_ptr<FrameLimits> limits);
    ~ControlLink();
    ControlLink(const ControlLink&) = delete;
    ControlLink& operator=(const ControlLink&) = delete;

    /// As FrameLink::say.
    void say(std::string_view words);
    bool has_unsent() { return !link_.unsent().is_empty(); }
    /// Waits for at least one frame, as long as it takes; one that has begun must go on, within the
    /// limits. Throws as read_frame.
    std::vector<Json> wait(std::uint32_t max_bytes);
    /// As FrameLink::finish.
    void finish(Clock::time_point deadline = Clock::now() + std::chrono::seconds(5)) {
        link_.finish(deadline);
    }
    /// As FrameLink::end.
    void end() { link_.end(); }

private:
    std::chrono::milliseconds patience();
    void count_held();

    FrameLink link_;
    int wake_;  ///< an eventfd
    const std::shared_ptr<FrameLimits> limits_;
    std::size_t held_bytes_ = 0;  ///< of those in the limits
};

}  // namespace datamover::stream

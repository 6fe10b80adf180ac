// SPDX-License-Identifier: BSD-3-Clause
// How do words of JSON go over a connection? As frames: a header with their length and CRC32C
// first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "stream/connection.hpp"
#include "stream/json.hpp"

namespace datamover::stream {

/// Of a frame from somebody who has not said yet who they are, and of one that tells layouts.
inline constexpr std::uint32_t max_greeting_bytes = 1 << 14, max_frame_bytes = 1 << 24;

/// A frame with these words.
std::string frame_of(std::string_view words);
/// Reads one frame, and nothing after it. Throws io where what came is no frame, is too long or was
/// damaged; peer_failed; timeout.
Json read_frame(const Connection& connection, std::uint32_t max_bytes, Clock::time_point deadline);

/// A connection over which frames go both ways, its end at which the consumers are. One thread
/// waits for what comes; anybody sends, and never waits: what the system does not take at once is
/// left to that thread. What is said is bounded by the credits of the other end, so that what waits
/// is, too.
class ControlLink {
public:
    /// Throws peer_failed where the system has no event for it.
    explicit ControlLink(std::shared_ptr<const Connection> connection);
    ~ControlLink();
    ControlLink(const ControlLink&) = delete;
    ControlLink& operator=(const ControlLink&) = delete;

    /// Sends a frame. Where the connection has ended, whoever waits learns of it, not the caller.
    void say(std::string_view words);
    /// Waits for at least one frame, as long as it takes; one that has begun must go on. Throws as
    /// read_frame.
    std::vector<Json> wait(std::uint32_t max_bytes);
    /// Waits until all has been handed to the system, or the deadline; no more is sent.
    void finish(Clock::time_point deadline = Clock::now() + std::chrono::seconds(5));
    /// Ends the connection; what the system has taken still arrives.
    void end() { connection_->end(); }

private:
    void send_pending();  ///< under the lock
    std::vector<Json> take_frames(std::uint32_t max_bytes);

    const std::shared_ptr<const Connection> connection_;
    int wake_;  ///< an eventfd
    std::mutex lock_;
    std::string pending_;
    bool is_broken_ = false;
    std::vector<std::byte> come_;
};

}  // namespace datamover::stream

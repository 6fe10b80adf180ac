// SPDX-License-Identifier: BSD-3-Clause
// Frames: control messages on a connection, each a header and words. The readers do not trust their
// input.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datamover/error.hpp"
#include "stream/wire/connection.hpp"
#include "stream/wire/plan_between.hpp"
#include "stream/wire/words.hpp"

namespace datamover::stream {

/// Throws invalid_argument unless a frame can say the name of an array, and whoever reads it takes
/// it.
void check_array_name(const std::string& name);

/// What both ends say first.
inline constexpr int protocol_version = 12;
/// Of a frame from somebody who has not said yet who they are, from a consumer, and from a stream,
/// which may describe long lists of indices.
inline constexpr std::uint32_t max_greeting_bytes = 1 << 14, max_request_bytes = 1 << 22,
                               max_frame_bytes = 1 << 24;

/// A control message. Which fields are sent depends on its type; see `pass`.
struct Frame {
    enum class Type : std::int64_t {
        greeting,    ///< of whoever listens
        control,     ///< who connects: a process of a consumer that has no key yet, or a key
        data,        ///< who connects for messages
        welcome,     ///< what a process of a consumer has to know of the stream
        array,       ///< an array that the stream sends
        arrays,      ///< asks for all of them; they were all
        subscribe,   ///< which arrays a consumer requests
        credit,      ///< steps that may be sent beyond those that were granted before
        subscribed,  ///< the request is known, and each process has granted credits
        step,        ///< which arrays of a step are sent
        done,        ///< all steps up to this place were taken
        bye,         ///< a process leaves; all steps before this place were taken
        end,         ///< no more steps come
        failed       ///< nor to a consumer that has failed, or for which the stream has
    };
    /// A process that sends: where it listens, and under which name on its machine.
    struct Sender {
        std::string host;
        int port = 0;
        std::string local_name;

        Words& pass(Words& words);
    };

    /// Writes or reads the fields of a frame of its type. Throws as Words.
    Words& pass(Words& words);
    /// The frame of these bytes. Throws io, also if its type is after `last`.
    static Frame read(std::span<const std::byte> body, Type last = Type::failed);
    /// With its header.
    std::string bytes();

    Type type = Type::greeting;
    std::int64_t version = protocol_version;
    std::string key{}, token{};
    std::int64_t nprocs = 1, rank = 0, pathway = 0;
    std::int64_t pathways = 1;
    std::vector<Sender> senders{};
    bool goes_ahead = false, is_pressed = false, tells_by_messages = false;  ///< as StreamHabits
    SentArray array{};
    std::vector<WantedArray> wanted{};
    bool newest = false;
    std::int64_t steps = 0, place = 0, number = 0, dropped = 0;
    std::vector<std::uint32_t> numbers{};  ///< of arrays
    std::optional<Error> error{};
};

/// Sends a frame; waits. Throws as Connection::send.
void send_frame(const Connection& connection, Frame frame);
/// Reads one frame, and nothing after it; `look` is called now and then meanwhile. Throws as
/// Frame::read, io if it is too long or was damaged, peer_failed, timeout, and what `look` throws.
Frame read_frame(const Connection& connection, std::uint32_t max_bytes, Clock::time_point deadline,
                 const Look& look = {}, Frame::Type last = Frame::Type::failed);

/// A connection over which frames go both ways. One thread reads, anybody sends. Nothing waits.
class FrameLink : public Link {
public:
    using Link::Link;

    /// Sends the bytes of a frame. Where the connection has ended, whoever reads learns of it, not
    /// the caller. Whether the system took it all.
    bool say(std::string_view frame) {
        return send(std::as_bytes(std::span(frame.data(), frame.size())));
    }
    bool say(Frame frame) { return say(frame.bytes()); }
    /// The frames that have come. Throws as read_frame, but for timeout.
    std::vector<Frame> receive(std::uint32_t max_bytes);
    /// When the frame began to come that is not complete yet.
    std::optional<Clock::time_point> begun() const { return begun_; }
    /// Waits until all has been handed to the system, or the deadline; no more is sent.
    void finish(Clock::time_point deadline = Clock::now() + std::chrono::seconds(5));

private:
    std::vector<std::byte> come_;
    std::optional<Clock::time_point> begun_;
};

/// A frame of a consumer is complete within this time after its first byte. Changed by tests alone.
inline std::atomic<int> frame_milliseconds{30'000};

/// Such a connection with a thread that waits for what comes, at whose end the consumers are. What
/// the system does not take at once is left to that thread.
class ControlLink : public FrameLink {
public:
    /// Throws io where the system has no event for it.
    explicit ControlLink(std::shared_ptr<const Connection> connection)
        : FrameLink(std::move(connection)), wake_(true) {}

    /// As FrameLink::say.
    void say(std::string_view frame);
    void say(Frame frame) { say(frame.bytes()); }
    /// Waits for at least one frame of a consumer, as long as it takes; one that has begun must be
    /// complete in time. Throws as read_frame.
    std::vector<Frame> wait();

private:
    const Event wake_;
};

}  // namespace datamover::stream

// SPDX-License-Identifier: BSD-3-Clause
// Places: decide which streams of a program may hold buffers, and which wait until another gives up
// its place. Process 0 decides, under one lock for all streams. The other processes receive its
// decisions in the sending calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "datamover/stream_options.hpp"
#include "stream/wire/connection.hpp"

namespace datamover::stream {

/// A stream of process 0 as others see it that want its place. All under the lock of `Places`.
class PlaceHolder {
public:
    virtual ~PlaceHolder() = default;
    /// Whether nothing of it waits for a consumer or is on its way to one.
    virtual bool is_taken() const = 0;
    /// Whether the newest step of it has begun and not ended.
    virtual bool is_within_step() const = 0;
    /// Ends consumers that could have taken something, and have not since then.
    virtual void end_stalled(Clock::time_point since) = 0;
};

/// A turn of a stream, from where it takes a place to where it gives the place up.
using Turn = std::pair<std::string, std::int64_t>;  ///< the stream's name and the turn's number

class Places {
public:
    /// Throws invalid_argument.
    explicit Places(const StreamManagerOptions& options);

    /// Whether consumers get each array as a step of its own.
    bool ends_each_array() const { return options_.unit == "array"; }

    // What process 0 decides. All under the lock.

    std::mutex lock;
    std::condition_variable changed;

    /// Whether it has a place. Else it waits, in order, and asks again as
    /// soon as something has changed. Throws invalid_state where that would never be.
    bool take(PlaceHolder& who, bool begins_step);
    /// It asks no more.
    void stop_waiting(const PlaceHolder* who);
    std::int64_t turn_of(const PlaceHolder& who);
    /// Turns that have ended and of which the other processes have not been told.
    std::vector<Turn> take_ended() { return std::exchange(ended_, {}); }
    /// They were perhaps not told.
    void tell_again(const std::vector<Turn>& ended);
    std::int64_t active() const;

    // What every process does in the sending calls. These lock.

    /// Takes a stream in under its name, until what is returned goes: then it gives its place up,
    /// too. `who` asks for places, on process 0; `free` gives all memory of the stream's messages
    /// back. Throws invalid_argument where there is a stream of this name.
    std::shared_ptr<void> enter(const std::string& name, PlaceHolder* who,
                                std::function<void()> free);
    void begin_turn(const Turn& turn);
    /// Frees the memory, unless a later turn has begun.
    void end_turn(const Turn& turn);
    /// A process has ended all streams: those here end with their next calls.
    void end_streams() { have_ended_ = true; }
    bool have_streams_ended() const { return have_ended_; }

private:
    struct Entry {
        std::string name;
        PlaceHolder* who = nullptr;  ///< null but on process 0
        std::function<void()> free;
        bool has_place = false;
        std::int64_t turn = -1;    ///< as decided
        std::int64_t begun = -1;   ///< turn, on this process
        std::thread::id thread{};  ///< which sent last
    };
    void leave(const std::string& name);
    Entry* find(const PlaceHolder& who);         ///< null: it has left
    Entry* find_named(const std::string& name);  ///< the same
    bool make_place(const Entry& mine);
    void check_progress(const Entry& mine) const;

    const StreamManagerOptions options_;
    std::vector<Entry> entries_;
    std::deque<const PlaceHolder*> waiting_;  ///< in order of their asking
    std::vector<Turn> ended_;
    std::int64_t turns_ = 0;
    std::mutex freeing_;  ///< taken before the lock
    std::atomic<bool> have_ended_{false};
};

}  // namespace datamover::stream

// SPDX-License-Identifier: BSD-3-Clause
// Connections whose other end may be gone: bytes over a socket, a buffer of what the system does
// not take at once, and the waiting of threads.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace datamover::stream {

using Clock = std::chrono::steady_clock;

/// Seconds, at most 1e9: beyond these the clock's numbers end.
inline Clock::duration clock_time(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(std::min(seconds, 1e9)));
}

/// How often whoever waits looks around, where nothing else is under way.
inline constexpr std::chrono::milliseconds look_time{200};
/// Called now and then by whoever waits; throws where the wait has to end.
struct Look {
    std::function<void()> around = [] {};
    std::chrono::milliseconds time = look_time;  ///< so long nobody looks, at most
};

/// How long it is until then, rounded up; 0 where it is past.
std::chrono::milliseconds time_until(Clock::time_point end);

/// Waits until poll finds such events of a socket, below 0: none; whether they are there in time.
/// Throws what `look` throws.
bool wait_for(int socket, short events, Clock::time_point end, const Look& look = {});

/// How many files this process may have open.
std::uint64_t max_files();

/// Whether a file descriptor that the system gave may be kept for a connection. The last quarter of
/// those that this process may have are left to the rest of the program, however many connect.
bool may_keep(int file);

/// A file descriptor, closed with this; below 0: none.
class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor();
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }

    int get() const { return number_; }

private:
    int number_;
};

/// Wakes a thread that waits for its file in poll.
class Event {
public:
    /// Throws io where there is none, or none that may be kept for a connection that it serves.
    explicit Event(bool serves_connection);

    void set() const;
    int file() const { return file_.get(); }
    /// Waits until it is set, which clears it, or poll finds such events of a socket (below 0: no
    /// socket); so long at most (below 0: for ever). What was found of the socket; none where the
    /// time has passed. Throws peer_failed.
    std::optional<short> wait(int socket, short events, std::chrono::milliseconds time) const;

private:
    const Descriptor file_;
};

/// A connection that has been opened; it is closed with this.
class Connection {
public:
    explicit Connection(int socket);

    int socket() const { return socket_.get(); }
    /// Whether both ends are on this machine, and file descriptors can be handed over.
    bool is_local() const { return is_local_; }
    /// Whether it is local, and a process of this user opened its other end.
    bool is_of_this_user() const;
    /// Sends small things at once, as fast as the other end takes them where that is on this
    /// machine, and finds out when the other machine says nothing any more. Throws peer_failed.
    void look_after() const;

    /// Whether what is sent stays on this machine, though not by way of its memory.
    bool loops_back() const;
    /// Has the system take no more than about so much of what the other end has not taken yet.
    /// Without it, the system decides. Does nothing where that fails.
    void limit_kept(int bytes) const;

    /// Sends; waits. Throws peer_failed where the connection has ended, timeout.
    void send(std::span<const std::byte> bytes,
              Clock::time_point deadline = Clock::now() + std::chrono::seconds(10)) const;
    /// Sends what the system takes at once, one after the other; the bytes that it took. The other
    /// end gets a copy of `file`, unless it is below 0, if any byte is taken. Throws peer_failed.
    std::size_t send_now(std::span<const std::byte> first, std::span<const std::byte> second = {},
                         int file = -1) const;
    /// Fills a memory; waits. Throws peer_failed where the connection has ended, timeout, and what
    /// `look` throws.
    void read(std::span<std::byte> into, Clock::time_point deadline, const Look& look = {}) const;
    /// How many bytes have come, into one memory and then another; nothing where none have. Does
    /// not wait. Files that a local end has handed over are added to `files`, or closed without it.
    /// Throws peer_failed where the connection has ended.
    std::optional<std::size_t> receive(std::span<std::byte> first, std::span<std::byte> second = {},
                                       std::deque<Descriptor>* files = nullptr) const;
    /// Says that no more is sent.
    void end_sending() const;
    /// Ends it, whoever uses it in another thread.
    void end() const;

private:
    const Descriptor socket_;
    const bool is_local_;
};

/// A connection that is told something in order, by anybody, without waiting. What the system does
/// not take at once is kept until it does; what is said is bounded by the credits of the other end,
/// so that what is kept is, too. Where the connection has ended, whoever reads it learns of it, not
/// who says something.
class Link {
public:
    explicit Link(std::shared_ptr<const Connection> connection)
        : connection_(std::move(connection)) {}

    int socket() const { return connection_->socket(); }
    /// Ends the connection, whoever else has it; what the system has taken still arrives.
    void end() const { connection_->end(); }
    /// Sends bytes; whether the system took them all.
    bool send(std::span<const std::byte> bytes);
    /// Sends what is kept, as far as the system takes it; whether nothing is left.
    bool send_more();
    bool has_unsent() const;

protected:
    const std::shared_ptr<const Connection> connection_;

private:
    void try_to_send();

    mutable std::mutex lock_;
    std::vector<std::byte> kept_;
    bool is_broken_ = false;
};

/// A few times what it takes to wake a processor that has gone to sleep. Whoever sends pays for
/// that, more than for a short message.
inline constexpr std::chrono::microseconds awake_time{100};

/// As poll, but stays awake up to `end`, and gives way to others that want its processor.
int awake_poll(std::span<pollfd> waiting, std::chrono::milliseconds time, Clock::time_point end);

/// A thread that gets no signals, nor do those that it starts. Throws io, "cannot start the thread
/// that" does so.
std::thread thread_without_signals(const char* does, std::function<void()> work);

}  // namespace datamover::stream

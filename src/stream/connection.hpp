// SPDX-License-Identifier: BSD-3-Clause
// Connection: sends and receives bytes over a socket whose other end may be gone.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace datamover::stream {

using Clock = std::chrono::steady_clock;

/// How often whoever waits looks around, where nothing else is under way.
inline constexpr std::chrono::milliseconds look_time{200};
/// Called now and then by whoever waits; throws where the wait has to end.
struct Look {
    std::function<void()> around;
    std::chrono::milliseconds time = look_time;

    void operator()() const {
        if (around) around();
    }
    /// So long nobody looks, at most.
    std::chrono::milliseconds until_next(std::chrono::milliseconds left) const {
        return around ? std::min(left, time) : left;
    }
};

/// How many files this process may have open.
std::uint64_t max_files();

/// Whether a file descriptor that the system gave may be kept for a connection. The last quarter of
/// those that this process may have are left to the rest of the program, however many connect.
bool may_keep(int file);

/// A connection that has been opened; it is closed with this.
class Connection {
public:
    explicit Connection(int socket);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    int socket() const { return socket_; }
    /// Whether both ends are on this machine, and file descriptors can be handed over.
    bool is_local() const { return is_local_; }
    /// Whether it is local, and a process of this user opened its other end.
    bool is_of_this_user() const;
    /// Whoever sends waits so long until the other end takes anything. Throws peer_failed.
    void limit_sending(int seconds) const;
    /// Sends small things at once, as fast as the other end takes them where that is on this
    /// machine, and finds out when the other machine says nothing any more. Throws peer_failed.
    void look_after() const;

    /// Whether what is sent stays on this machine, though not by way of its memory.
    bool loops_back() const;
    /// Has the system take no more than about so much of what the other end has not taken yet.
    /// Without it, the system decides. Does nothing where that fails.
    void limit_kept(int bytes) const;

    /// Sends; waits. Throws peer_failed where the connection has ended, timeout.
    void send(std::span<const std::byte> bytes) const;
    /// Sends what the system takes at once, one after the other; the bytes that it took. Throws
    /// peer_failed.
    std::size_t send_now(std::span<const std::byte> first,
                         std::span<const std::byte> second = {}) const;
    /// As send_now, with a file descriptor, which the other end gets a copy of if any byte is
    /// taken.
    std::size_t send_now_with_file(std::span<const std::byte> bytes, int file) const;
    /// Fills a memory; waits. Throws peer_failed where the connection has ended, timeout, and what
    /// `look` throws.
    void read(std::span<std::byte> into, Clock::time_point deadline, const Look& look = {}) const;
    /// What has come, in `into`; nothing where nothing has. Does not wait. Throws peer_failed where
    /// the connection has ended.
    std::optional<std::span<std::byte>> receive(std::span<std::byte> into) const;
    /// Says that no more is sent.
    void end_sending() const;
    /// Ends it, whoever uses it in another thread.
    void end() const;

private:
    int socket_;
    bool is_local_;
};

}  // namespace datamover::stream

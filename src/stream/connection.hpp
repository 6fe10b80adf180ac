// SPDX-License-Identifier: BSD-3-Clause
// How are bytes sent over a connection to somebody who may have gone?
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace datamover::stream {

/// A connection that has been opened; it is closed with this.
class Connection {
public:
    /// Somebody who takes nothing for `stalled_seconds` has failed. The socket is closed on errors
    /// too.
    Connection(int socket, int stalled_seconds);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    int socket() const { return socket_; }
    /// Whether both ends are on this machine, and file descriptors can be handed over.
    bool is_local() const { return is_local_; }

    /// Sends one after the other; waits. Throws peer_failed where the connection has ended,
    /// timeout.
    void send(std::span<const std::byte> header, std::span<const std::byte> body = {}) const;
    /// Sends with a file descriptor, which the other end gets a copy of.
    void send_with_file(std::span<const std::byte> bytes, int file) const;
    /// What has come, in `into`; nothing where nothing has. Does not wait. Throws peer_failed where
    /// the connection has ended.
    std::optional<std::span<std::byte>> receive(std::span<std::byte> into) const;
    /// Ends it, whoever uses it in another thread.
    void end() const;

private:
    int socket_;
    bool is_local_;
};

}  // namespace datamover::stream

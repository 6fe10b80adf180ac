// SPDX-License-Identifier: BSD-3-Clause
// Addresses of streams, their listeners, and connecting to them. A process that connects answers
// the greeting of the listening end (see reception.hpp).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stream/wire/connection.hpp"
#include "stream/wire/frames.hpp"
#include "stream/wire/together.hpp"

namespace datamover::stream {

/// A host and a port, such as those of "tcp://127.0.0.1:5777" or "tcp://[::1]:5777".
struct Address {
    std::string host;
    int port = 0;

    /// Throws invalid_argument.
    static Address of_text(std::string_view text);
    std::string text() const;
    bool operator==(const Address&) const = default;
};

/// Whether only processes of this machine can reach an address.
bool is_loopback(const std::string& host);
/// Whether an address stands for all interfaces of a machine.
bool is_any(const std::string& host);

/// The addresses of a connection's ends, as numbers; none of a local one.
std::optional<Address> own_end(int socket);
std::optional<Address> peer_end(int socket);

/// Sockets that listen.
struct Listeners {
    std::vector<Descriptor> sockets{};
    Address address{};         ///< where this process can be reached
    std::string local_name{};  ///< "" if there is none
};

/// Process 0 listens at the address, the others at ports of their own, at that address or, where it
/// is not this machine's, at the one that leads there. With `local` also under a name that
/// processes of this machine can find. Throws io.
Listeners listen_at(const Address& first, int rank, bool local);

/// Whoever has connected hears a greeting within this time. Changed by tests alone.
inline std::atomic<int> greeting_milliseconds{10'000};

/// When the answer to what is said now has to be there.
Clock::time_point greeting_end(const Deadline& deadline);

/// How somebody connects.
struct Dialing {
    /// The token to present over a connection.
    std::function<std::string(const Connection&)> token;
    Look look;  ///< called now and then
};

/// Connects; with `again`, tries again while nobody listens. Throws timeout (nobody listened in
/// time), io (somebody else does), peer_failed, and what `look` throws.
std::shared_ptr<Connection> dial(const Address& address, Frame words, const Dialing& dialing,
                                 const Deadline& deadline, bool again);
/// Connects to a process of this machine; null where nobody of that name is here. Throws as `dial`.
std::shared_ptr<Connection> dial_local(const std::string& name, Frame words,
                                       const Dialing& dialing);

}  // namespace datamover::stream

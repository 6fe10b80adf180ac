// SPDX-License-Identifier: BSD-3-Clause
// Dialing: connects a receiving process to a stream and identifies it. It answers the greeting of
// the listening end (see reception.hpp).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "stream/wire/connection.hpp"
#include "stream/wire/fields.hpp"
#include "stream/wire/listening.hpp"
#include "stream/wire/together.hpp"

namespace datamover::stream {

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
std::shared_ptr<Connection> dial(const Address& address, const Record& words,
                                 const Dialing& dialing, const Deadline& deadline, bool again);
/// Connects to a process of this machine; null where nobody of that name is here. Throws as `dial`.
std::shared_ptr<Connection> dial_local(const std::string& name, const Record& words,
                                       const Dialing& dialing);

}  // namespace datamover::stream

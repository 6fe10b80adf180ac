// SPDX-License-Identifier: BSD-3-Clause
// Reception: accepts and authenticates connections to the sending end of a stream. The listening
// end sends the version of the protocol. The other end answers with its identity and the token of
// the stream. Local sockets need no token if both ends have the same user.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stream/sender/audience.hpp"
#include "stream/sender/outbox.hpp"
#include "stream/wire/token.hpp"

namespace datamover::stream {

/// Connections at the same time, at most half of the files that this process may have. Where there
/// are so many, or an eighth that have not said who they are, the oldest of these is ended; one
/// that comes is closed at once where that takes too long. Changed by tests alone.
inline std::atomic<std::size_t> max_connections{1024};

/// Accepts connections in a thread for each listening socket; each connection is served by a thread
/// of its own. These threads call neither MPI nor anything of the program's.
class Reception {
public:
    /// Everybody may connect if `token` is empty; `token_file` goes before the address is free for
    /// another stream. `audience` is there on process 0 alone. Throws io.
    Reception(std::vector<Descriptor> sockets, std::string token, std::shared_ptr<Outbox> outbox,
              std::shared_ptr<Audience> audience, std::unique_ptr<TokenFile> token_file = nullptr);
    ~Reception() { close(); }
    Reception(const Reception&) = delete;
    Reception& operator=(const Reception&) = delete;

    /// Ends all connections and listens no more. Does nothing in a forked process, whose parent
    /// they belong to.
    void close();
    /// Whether it was not opened by a parent that this process was forked from.
    bool is_of_this_process() const;
    /// Connections that this end has ended: what came made no sense, or not in time, or there were
    /// too many.
    std::uint64_t refused() const;
    /// Connections that there are now.
    std::size_t connections() const;

private:
    struct State;
    std::shared_ptr<State> state_;  ///< lives as long as any of the threads
};

}  // namespace datamover::stream

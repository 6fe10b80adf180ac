// SPDX-License-Identifier: BSD-3-Clause
// User transports: a program adds a transport of its own.
//
// Movers named for it (transport = "NAME") then use it like the library's own: see
// docs/transports.md and examples/own_transport.cpp.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "datamover/export.h"

// Declared outside of the public part, so that shared libraries do not export it.
namespace datamover::transport {
class PairProgram;
}

namespace datamover DATAMOVER_PUBLIC {

/// The result of an attempt to do the work that can be done now.
enum class Progress {
    none,      ///< nothing could be done
    some,      ///< something was done; more may be possible soon
    complete,  ///< the round is complete
};

/// The data that one process sends to another, or receives from it, in each round of a mover, as
/// messages: both sides have the same number of messages, of the same lengths, in the same order.
/// pack and unpack implement the arrays, layouts, types and updates of the mover, and allocate
/// nothing.
class PairMessages {
public:
    PairMessages(std::int64_t peer, bool sends,
                 std::shared_ptr<const transport::PairProgram> program);

    std::int64_t peer() const { return peer_; }
    bool sends() const { return sends_; }
    std::size_t messages() const;
    std::int64_t bytes(std::size_t message) const;
    /// Write a message from the mover's arrays as they are now. Only for a pair that sends.
    void pack(std::size_t message, std::byte* to) const;
    /// Store a message into the mover's arrays. Only for a pair that receives; each message once
    /// per round, in any order.
    void unpack(std::size_t message, const std::byte* from) const;
    /// Return the address in an array at which the bytes of a message are stored as in the message,
    /// so that it need not be packed or unpacked; null if there is none.
    std::byte* in_place(std::size_t message) const;

private:
    std::int64_t peer_;
    bool sends_;
    std::shared_ptr<const transport::PairProgram> program_;
};

/// The resources that a transport may use while a mover is bound.
struct UserTransportContext {
    MPI_Comm comm =
        MPI_COMM_NULL;  ///< owned by the library; only for this mover's messages with `tag`
    int tag = 0;
    std::int64_t most_buffers = 1;  ///< messages of a pair that may have memory at the same time
    /// Keeps memory forever, after a failed round, because MPI may still access it.
    std::function<void(std::shared_ptr<const void>)> keep;
};

/// A transport bound to the pairs of one mover on this process. In each round the library calls
/// start, then progress until it returns complete. Neither may wait for another process. With a
/// progress thread (progress.hpp), if MPI was initialized with MPI_THREAD_MULTIPLE, that thread
/// also calls them, never while another call on the same object runs. An exception ends the round,
/// and all processes are notified: the mover's communicator can no longer be used. An object
/// destroyed within a round (which has failed) must not wait for other processes.
class UserTransport {
public:
    virtual ~UserTransport() = default;
    virtual void start() = 0;
    virtual Progress progress() = 0;
    /// Return the processes that this round still waits for, for error messages.
    virtual std::vector<std::int64_t> waiting_for() const = 0;
    /// Return the bytes of buffers that the transport holds.
    virtual std::int64_t extra_bytes() const { return 0; }
};

/// A kind of transport.
struct UserTransportKind {
    std::string name;
    /// Whether it can carry data from one rank to another, possibly on the same node. Both
    /// processes must return the same answer. Empty: always.
    std::function<bool(std::int64_t from, std::int64_t to, bool same_node)> carries{};
    /// Makes a transport for the pairs of a mover that it carries, on each process with such pairs.
    /// An exception is raised on all processes, and nothing is bound. Must not call collectives.
    std::function<std::unique_ptr<UserTransport>(const UserTransportContext&,
                                                 std::vector<PairMessages>)>
        bind{};
};

/// Register a kind of transport for the rest of the program. It is then available by its name in
/// MoverOptions::transport, and to "measure"; "auto" never uses it. All processes must add the same
/// kinds in the same order, not before main, and while no mover is being made. Throws
/// invalid_argument if the name is taken, is longer than 15 characters or has characters other than
/// letters, digits, "_" and "-", or if `bind` is missing. Local.
void add_transport(UserTransportKind kind);

}  // namespace datamover

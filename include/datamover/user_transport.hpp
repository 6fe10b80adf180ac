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

namespace datamover DATAMOVER_PUBLIC {

namespace transport {
class PairProgram;
}

/// What has come of a try to do what can be done now.
enum class Progress {
    none,      ///< nothing could be done
    some,      ///< something was done: more may be possible soon
    complete,  ///< all of the round is done
};

/// What goes to, or comes from, another process in each round of a mover, as messages: equally many
/// on both sides, of equal lengths, in the same order. Whatever arrays, layouts, types and updates
/// the mover has is in pack and unpack, which allocate nothing.
class PairMessages {
public:
    PairMessages(std::int64_t peer, bool sends,
                 std::shared_ptr<const transport::PairProgram> program);

    std::int64_t peer() const { return peer_; }
    bool sends() const { return sends_; }
    std::size_t messages() const;
    std::int64_t bytes(std::size_t message) const;
    /// Of a pair that sends: writes a message, from the mover's arrays as they are now.
    void pack(std::size_t message, std::byte* to) const;
    /// Of a pair that receives: brings a message into the mover's arrays. Each one once per round,
    /// in any order.
    void unpack(std::size_t message, const std::byte* from) const;
    /// Where the bytes of a message lie in an array as they do in the message, so that it need not
    /// be packed or unpacked; null where they do not.
    std::byte* in_place(std::size_t message) const;

private:
    std::int64_t peer_;
    bool sends_;
    std::shared_ptr<const transport::PairProgram> program_;
};

/// What a transport may use while a mover is bound.
struct UserTransportContext {
    MPI_Comm comm = MPI_COMM_NULL;  ///< of the library, for this mover's messages with `tag` alone
    int tag = 0;
    std::int64_t most_buffers = 1;  ///< messages of a pair that there may be memory for at a time
    /// Keeps memory for good that MPI may still touch, after a round that failed.
    std::function<void(std::shared_ptr<const void>)> keep;
};

/// A way to carry, bound to the pairs of one mover on this process. The library calls start, then
/// progress until that says complete; again and again. Neither waits for another process. With a
/// progress thread (progress.hpp), where MPI was initialised with MPI_THREAD_MULTIPLE, that thread
/// calls them too, never while another call of the same object runs. What they throw ends the
/// round, which all processes are told: the mover's communicator is out of use then. One that is
/// destroyed in a round (which has failed) waits for nobody.
class UserTransport {
public:
    virtual ~UserTransport() = default;
    virtual void start() = 0;
    virtual Progress progress() = 0;
    /// The processes that this round still waits for, for error messages.
    virtual std::vector<std::int64_t> waiting_for() const = 0;
    /// Bytes of buffers that it holds.
    virtual std::int64_t extra_bytes() const { return 0; }
};

/// A kind of transport.
struct UserTransportKind {
    std::string name;
    /// Whether it can carry from one rank to another, which may be on one node. Both processes give
    /// the same answer. Empty: always.
    std::function<bool(std::int64_t from, std::int64_t to, bool same_node)> carries{};
    /// Makes one for the pairs of a mover that it carries; on each process with such pairs. An
    /// exception is raised on all processes, and nothing is bound. Calls nothing collective.
    std::function<std::unique_ptr<UserTransport>(const UserTransportContext&,
                                                 std::vector<PairMessages>)>
        bind{};
};

/// Makes a kind known for the rest of the program: by its name in MoverOptions::transport, and to
/// "measure"; "auto" never takes it. Local; all processes add the same kinds in the same order,
/// not before main, while no mover is made. Throws invalid_argument for a name that is taken, is
/// longer than 15 characters or not made of letters, digits, "_" and "-", or without `bind`.
void add_transport(UserTransportKind kind);

}  // namespace datamover

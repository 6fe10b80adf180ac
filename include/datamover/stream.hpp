// SPDX-License-Identifier: BSD-3-Clause
// Streams, and a manager of many: a running program sends its arrays to programs and web pages.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "datamover/array.hpp"
#include "datamover/array_part.hpp"
#include "datamover/error.hpp"
#include "datamover/export.h"
#include "datamover/stream_options.hpp"

// Declared outside of the public part, so that shared libraries do not export it.
namespace datamover::stream {
class Producer;
}

namespace datamover DATAMOVER_PUBLIC {

/// The sending end of a stream, which sends arrays, step by step, to all consumers:
/// `datamover.stream` of Python, `datamover stream`, a page. Consumers may connect, leave, fail and
/// reconnect at any time. Each gets every step from the first one that begins after it has
/// connected, except those that the policy drops for it. The stream's own threads, which do not
/// call MPI, serve them. Calls from several threads of the program are serialized, except that
/// closing ends a `send` of another thread that waits for consumers. If a collective call fails on
/// one process, all throw. The timeout between the processes is that of set_default_timeout
/// (progress.hpp). Nothing is encrypted. Source: the paper on network I/O, sections 5 and 6.
class Stream {
public:
    /// Make an object without a stream.
    Stream();
    /// Open a stream. Process 0 listens at "tcp://host:port", an address of its machine that
    /// consumers can reach; port 0: any free port. The other processes listen at ports of their
    /// own. Throws io (the address cannot be listened at), invalid_argument. Collective.
    Stream(MPI_Comm comm, const std::string& address, const StreamOptions& options = {});
    /// End the stream immediately: consumers do not get what they have not taken. Local.
    ~Stream();
    Stream(Stream&&) noexcept;
    Stream& operator=(Stream&&) noexcept;

    /// Send this process's part of an array to all consumers that have selected it, under a name of
    /// 1 to 256 bytes. When the call returns, the array may be written again: it has been packed,
    /// once for each consumer that gets it, and is sent in the background. Arrays sent one after
    /// the other with the same number are one step. Without a number each is a step of its own,
    /// after the last one. An array has the same type and layout in all steps.
    ///
    /// Throws mismatch (processes or steps differ), wrong_type, invalid_argument (an array that was
    /// already sent in this step), unsupported (an index list that no process holds whole), timeout
    /// (consumers, with policy "block" or of other streams of a manager, took nothing in time),
    /// invalid_state (the stream is closed, or waits for data that its own thread must send first).
    /// All processes throw what one throws, and nothing is sent then. Collective.
    void send(const std::string& name, const ArrayPart& array,
              std::optional<std::int64_t> step = {});
    void send(const std::string& name, const Array& array, std::optional<std::int64_t> step = {}) {
        send(name, array.part(), step);
    }
    /// End the step that was sent last: consumers get it as it is, and the next array sent begins a
    /// new step. Throws mismatch, invalid_state. Collective.
    void end_step();
    /// Take the place of the next call on a process that cannot make it: all processes throw `why`.
    /// Collective, as the call that it replaces.
    [[noreturn]] void refuse(const Error& why);
    /// Wait until consumers have received what was sent to them, then end the stream. They do not
    /// get what they have not taken after `timeout_seconds` (see progress.hpp); this counts
    /// as dropped. A second call does nothing, and neither does one in a forked process. Throws
    /// mismatch, invalid_argument (the stream stays open). Collective.
    void close(std::optional<double> timeout_seconds = 30.0);

    // Local. All throw invalid_state if there is no stream.

    /// Return the address that consumers connect to.
    const std::string& address() const;
    /// Return the token that consumers must present; "" if everybody may connect.
    const std::string& token() const;
    StreamCounters counters() const;

private:
    friend class StreamManager;
    explicit Stream(std::unique_ptr<stream::Producer> producer);
    stream::Producer& producer() const;

    std::unique_ptr<stream::Producer> producer_;
};

/// Limits the number of streams that hold buffers at the same time. A stream gets a place in the
/// call that sends, if a consumer has selected what is sent, and keeps it until another stream
/// needs it. The call of that stream then waits for a stream whose consumers have taken all or have
/// left, whatever the policies. A stream keeps its place while a step is incomplete. All streams
/// have the same process 0. Streams of several threads (each on a communicator of its own) get
/// places in the order of their requests. Source: the paper on network I/O, section 5.
class StreamManager {
public:
    /// Make an object without a manager.
    StreamManager() = default;
    /// Make a manager. Throws invalid_argument. Collective.
    explicit StreamManager(MPI_Comm comm, const StreamManagerOptions& options = {});

    /// Open a stream, as the constructor of Stream does, on the manager's communicator or on
    /// another that begins with the same process. No other open stream of the manager may have the
    /// same name. The stream may outlive the manager. Throws io, invalid_argument, mismatch (the
    /// name differs between processes), invalid_state (there is no manager). Collective.
    Stream open(const std::string& name, const std::string& address,
                const StreamOptions& options = {}) const;
    Stream open(MPI_Comm comm, const std::string& name, const std::string& address,
                const StreamOptions& options = {}) const;
    /// Return the number of streams that have a place now; only process 0 has it. Throws
    /// invalid_state. Local.
    std::int64_t active() const;

private:
    struct State;
    std::shared_ptr<const State> state_;
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Streams: a running program sends its distributed arrays to another program or a web page.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "datamover/array_part.hpp"
#include "datamover/error.hpp"
#include "datamover/export.h"
#include "datamover/stream_options.hpp"
#include "datamover/x_array.hpp"

namespace datamover DATAMOVER_PUBLIC {

namespace stream {
class Producer;
}

/// The sending end of a stream: arrays go, step by step, to whoever listens: `datamover.stream` of
/// Python, `datamover stream`, a page. Consumers may come, leave, fail and come again at any time;
/// each gets every step from the first one that begins after it has come, except those that the
/// policy drops for it. Threads of its own serve them, without MPI. Threads of the program take
/// turns, but closing ends a `send` of another one that waits for consumers. Where a collective
/// call fails on one process, all throw. Deadlines between the processes are those of
/// set_default_timeout (progress.hpp). Source: the paper on network I/O, sections 5 and 6. Nothing
/// is encrypted.
class Stream {
public:
    /// No stream.
    Stream();
    /// Process 0 listens at "tcp://host:port", an address of its machine that consumers can reach;
    /// port 0 for any that is free. The others listen at ports of their own. Collective. Throws io
    /// (the address cannot be listened at), invalid_argument.
    Stream(MPI_Comm comm, const std::string& address, const StreamOptions& options = {});
    /// Ends it at once: what consumers have not taken they do not get. Local.
    ~Stream();
    Stream(Stream&&) noexcept;
    Stream& operator=(Stream&&) noexcept;

    /// Sends this process's part of an array to all consumers that want it, under a name of 1 to
    /// 256 bytes. Returns when the array may be written again: it has been packed, once for each
    /// consumer that gets it, and travels meanwhile. Arrays that are sent one after the other with
    /// the same number are one step; without a number each is a step of its own, after the last
    /// one. All steps have the same type and layout of an array. Collective. Throws mismatch (what
    /// differs between processes or from before), wrong_type, invalid_argument (an array that was
    /// sent in this step before), unsupported (a list of indices that no process knows whole),
    /// timeout (consumers took nothing in time, with policy "block", or those of other streams of a
    /// manager), invalid_state (it is closed, or waits for what its own thread has to send first).
    /// Of many steps that are alike and come within microseconds, processes may be up to 16 ahead
    /// of one whose call fails, and throw its error then.
    void send(const std::string& name, const ArrayPart& array,
              std::optional<std::int64_t> step = {});
    void send(const std::string& name, const XArray& array, std::optional<std::int64_t> step = {}) {
        send(name, array.part(), step);
    }
    /// Nothing more comes of the step that was sent last: consumers get it as it is, and what is
    /// sent next is a step of its own. Collective. Throws mismatch, invalid_state.
    void end_step();
    /// Has the others throw `why` from the call that they make, where this process cannot make it;
    /// throws it here, too. Collective as the call in whose place it stands.
    [[noreturn]] void refuse(const Error& why);
    /// Waits until consumers have what was sent to them, then ends the stream. What they have not
    /// taken after so many seconds (nothing: wait for ever) they do not get; it counts as dropped.
    /// A second call does nothing, nor does one in a forked process. Collective. Throws mismatch,
    /// invalid_argument (the stream stays open).
    void close(std::optional<double> timeout_seconds = 30.0);

    // Local. All throw invalid_state where there is no stream.

    /// Where consumers connect.
    const std::string& address() const;
    /// What they must know; "" where nothing.
    const std::string& token() const;
    StreamCounters counters() const;

private:
    friend class StreamManager;
    explicit Stream(std::unique_ptr<stream::Producer> producer);
    stream::Producer& producer() const;

    std::unique_ptr<stream::Producer> producer_;
};

}  // namespace datamover

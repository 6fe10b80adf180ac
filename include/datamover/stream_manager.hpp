// SPDX-License-Identifier: BSD-3-Clause
// The stream manager: many streams share buffer memory that only a few can hold at a time.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "datamover/export.h"
#include "datamover/stream.hpp"
#include "datamover/stream_options.hpp"

namespace datamover DATAMOVER_PUBLIC {

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

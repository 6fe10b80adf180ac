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

/// Gives a few of many streams their buffers, while the others hold none. A stream takes a place in
/// the call that sends, where somebody wants what is sent, and keeps it until another stream needs
/// it: then the call of that one waits for a stream whose consumers have taken all, or have gone,
/// whatever the policies. So long a step is not complete, its stream keeps its place. All streams
/// have the same process 0. Streams of several threads (each on a communicator of its own) take
/// turns in the order in which they asked. Source: the paper on network I/O, section 5.
class StreamManager {
public:
    /// No manager.
    StreamManager() = default;
    /// Collective. Throws invalid_argument.
    explicit StreamManager(MPI_Comm comm, const StreamManagerOptions& options = {});

    /// Opens a stream, as the constructor of Stream does, under a name that no other open one of
    /// these has, on the manager's communicator or another that begins with the same process. It
    /// may outlive the manager. Collective. Throws io, invalid_argument, mismatch (the name differs
    /// between processes), invalid_state (there is no manager).
    Stream open(const std::string& name, const std::string& address,
                const StreamOptions& options = {}) const;
    Stream open(MPI_Comm comm, const std::string& name, const std::string& address,
                const StreamOptions& options = {}) const;
    /// Streams that have a place now; known to process 0. Local. Throws invalid_state.
    std::int64_t active() const;

private:
    struct State;
    std::shared_ptr<const State> state_;
};

}  // namespace datamover

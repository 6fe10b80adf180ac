// SPDX-License-Identifier: BSD-3-Clause
// Options and counters of a stream source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// All optional; the same on all processes.
struct StreamSourceOptions {
    /// What the stream demands; from the environment variable DATAMOVER_STREAM_TOKEN without it.
    std::optional<std::string> token = {};
    /// So long somebody who listens is waited for; without it for ever.
    std::optional<double> timeout_seconds = 30.0;
    /// Steps that each process takes memory for, beyond the one that is looked at; 1 to 64. It is
    /// the credit that the stream is granted: nothing else comes. 0: two, or as many as together
    /// have at most 8 MiB for this process, at most 16 (not with `newest`, nor where the stream
    /// drops its oldest steps: those that were granted would be older).
    std::int64_t ahead = 0;
    /// Whether messages of processes on this machine may come through shared memory.
    bool shared_memory = true;
    /// Whether only the newest step is wanted, whatever the stream's policy is: one step waits for
    /// this program, is dropped for the next one, and nobody waits for it.
    bool newest = false;
};

/// Counted since this process connected.
struct StreamSourceCounters {
    std::uint64_t bytes_received = 0;
    std::uint64_t checksum_errors = 0;
    std::uint64_t connections = 0;        ///< to sending processes
    std::uint64_t connections_local = 0;  ///< of them, those through shared memory
    std::uint64_t steps_dropped = 0;      ///< by the stream's policy, for this program
};

}  // namespace datamover

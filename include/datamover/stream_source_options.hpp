// SPDX-License-Identifier: BSD-3-Clause
// Options and counters of a stream source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// Options of a stream source, all with defaults; the same on all processes.
struct StreamSourceOptions {
    /// The token that the stream requires; by default that of the environment variable
    /// DATAMOVER_STREAM_TOKEN, or the one that a stream of the same user on this machine has
    /// stored.
    std::optional<std::string> token = {};
    /// How long to wait for a listening sender, in seconds; no value: default_timeout().
    std::optional<double> timeout_seconds = 30.0;
    /// Steps that each process allocates memory for, beyond the current one; 1 to 64. This is the
    /// credit granted to the stream, which sends nothing more. 0: two, or more, up to 16, if they
    /// fit in 8 MiB on this process. It is two with `newest`, or if the stream drops its oldest
    /// steps, because the granted steps would be older.
    std::int64_t ahead = 0;
    /// Whether messages of processes on this machine may arrive through shared memory.
    bool shared_memory = true;
    /// Whether to receive only the newest step, whatever the stream's policy. One step waits for
    /// this program and is dropped for the next one; no sender waits.
    bool newest = false;
};

/// Counters since this process connected.
struct StreamSourceCounters {
    std::uint64_t bytes_received = 0;
    std::uint64_t checksum_errors = 0;
    std::uint64_t connections = 0;        ///< to sending processes
    std::uint64_t connections_local = 0;  ///< those through shared memory
    std::uint64_t steps_dropped = 0;      ///< by the stream's policy, for this program
};

}  // namespace datamover

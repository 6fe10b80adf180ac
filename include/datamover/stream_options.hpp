// SPDX-License-Identifier: BSD-3-Clause
// Options and counters of both ends of a stream, and of a stream manager.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// Options of a stream, all with defaults; the same on all processes.
struct StreamOptions {
    /// Connections from each sending to each receiving process, over which a message is divided; 1
    /// to 16.
    std::int64_t pathways = 1;
    /// The action of `send` if a consumer's queue is full: "block" waits; "drop_oldest" drops the
    /// consumer's oldest queued step.
    std::string policy = "block";
    /// Most steps queued per consumer beyond those that it has requested; 1 to 65536.
    std::int64_t queue_steps = 2;
    /// Most bytes queued per consumer, of all processes together; the same number again may be in
    /// transfer. A consumer is refused if one step exceeds it. 0: no limit.
    std::int64_t queue_bytes = std::int64_t{1} << 30;
    /// Number of consumers that the first `send` waits for; up to 65536.
    std::int64_t consumers = 0;
    /// The token that consumers must present, 16 to 256 printable ASCII characters. By default, a
    /// token is made, which consumers of the same user on the machine of process 0 find by
    /// themselves.
    std::optional<std::string> token = {};
    /// Timeout of a wait for consumers, in seconds; no value: default_timeout().
    std::optional<double> timeout_seconds = {};
    /// Whether consumers on this machine receive messages through shared memory.
    bool shared_memory = true;
    /// Whether everybody who can reach the address may connect, without a token.
    bool open = false;
};

/// Options for sharing memory among several streams, all with defaults; the same on all processes.
struct StreamManagerOptions {
    /// Most streams that hold buffers at a time; 1 to 65536.
    std::int64_t active = 1;
    /// The unit after which a stream yields to others that wait: "step"; or "array", with which
    /// consumers get each array as a step of its own.
    std::string unit = "step";
    /// Disconnect consumers that have taken nothing for this many seconds while another stream
    /// waits for the place of theirs; by default never.
    std::optional<double> stall_seconds = {};
};

/// Counters since the stream was opened. Only process 0 counts consumers: `consumers_came ==
/// consumers + consumers_left + consumers_lost`.
struct StreamCounters {
    std::uint64_t bytes_kept = 0;  ///< packed on this process, not taken yet
    std::uint64_t bytes_held = 0;  ///< bytes_kept plus memory that is kept for packing
    std::uint64_t bytes_sent = 0;  ///< by this process
    /// Connections that this process closed because their input was malformed or late, or because
    /// there were too many.
    std::uint64_t connections_refused = 0;
    std::int64_t consumers = 0;       ///< that get steps now
    std::int64_t consumers_came = 0;  ///< that steps were ever sent to
    std::int64_t consumers_left = 0;  ///< of these: left without an error, or received the end
    std::int64_t consumers_lost = 0;  ///< of these: failed, were killed, or were refused
    std::int64_t steps_dropped = 0;   ///< for all consumers together
};

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

// SPDX-License-Identifier: BSD-3-Clause
// Options and counters of a stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// All optional; the same on all processes.
struct StreamOptions {
    /// Connections from each sending to each receiving process, which share a message; 1 to 16.
    std::int64_t pathways = 1;
    /// What `send` does where a consumer's queue is full: "block" waits; "drop_oldest" drops the
    /// consumer's oldest waiting step; "drop_newest" the new step, for this consumer.
    std::string policy = "block";
    /// Most steps that wait for a consumer beyond those that it has asked for; 1 to 65536.
    std::int64_t queue_steps = 2;
    /// Most bytes that wait for a consumer, of all processes together; as many more may be on their
    /// way to it. A consumer for which one step takes more is refused. 0: no limit.
    std::int64_t queue_bytes = std::int64_t{1} << 30;
    /// The first `send` waits until so many consumers are there; up to 65536.
    std::int64_t consumers = 0;
    /// What consumers must know, of at least 16 characters. Without one, a token is made for every
    /// address but the loopback's, where only processes of this machine can connect.
    std::optional<std::string> token = {};
    /// After so many seconds a wait for consumers gives up; never without it.
    std::optional<double> timeout_seconds = {};
    /// Whether consumers on this machine get messages through shared memory.
    bool shared_memory = true;
    /// Whether every step waits for `consumers`, not the first `send` alone.
    bool every_step = false;
};

/// How several streams share what they hold in memory. All optional; the same on all processes.
struct StreamManagerOptions {
    /// Most streams that hold buffers at a time; 1 to 65536.
    std::int64_t active = 1;
    /// After what a stream gives way to others that wait: "step"; or "array", where consumers get
    /// each array as a step of its own.
    std::string unit = "step";
    /// With "step": after as many steps as make up so many bytes, of all processes; 0: after each.
    std::int64_t unit_bytes = 0;
    /// Ends consumers that have taken nothing for so many seconds while another stream waits for
    /// their stream's place; never without it.
    std::optional<double> stall_seconds = {};
};

/// Counted since the stream was opened. Only process 0 counts consumers:
/// `consumers_came == consumers + consumers_left + consumers_lost`.
struct StreamCounters {
    std::uint64_t bytes_kept = 0;  ///< packed on this process, and not taken yet
    std::uint64_t bytes_held = 0;  ///< these, and memory that is there to be packed into again
    std::uint64_t bytes_sent = 0;  ///< by this process
    /// That this process ended: what came over them made no sense, or not in time, or there were
    /// too many.
    std::uint64_t connections_refused = 0;
    std::int64_t consumers = 0;       ///< that get steps now
    std::int64_t consumers_came = 0;  ///< that steps were ever sent for
    std::int64_t consumers_left = 0;  ///< of these: left without an error, or had the end
    std::int64_t consumers_lost = 0;  ///< of these: failed, were killed, or were refused
    std::int64_t steps_dropped = 0;   ///< for all consumers together
};

}  // namespace datamover

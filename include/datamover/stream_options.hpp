// SPDX-License-Identifier: BSD-3-Clause
// What may be said of a stream when it is opened, and what is counted of it?
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
};

/// Counted since the stream was opened; of consumers process 0 alone knows.
struct StreamCounters {
    std::uint64_t bytes_kept = 0;  ///< packed on this process, and not taken yet
    std::uint64_t bytes_sent = 0;  ///< by this process
    std::uint64_t connections_refused = 0;
    std::int64_t consumers = 0;  ///< that listen now
    std::int64_t consumers_came = 0;
    std::int64_t consumers_lost = 0;
    std::int64_t steps_dropped = 0;  ///< for all consumers together
};

}  // namespace datamover

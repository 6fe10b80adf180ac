// SPDX-License-Identifier: BSD-3-Clause
// A poll for connections that are expected to be readable within microseconds: it yields the
// processor for a while before it blocks.
#pragma once

#include <chrono>
#include <span>

#include <poll.h>

#include "stream/connection.hpp"

namespace datamover::stream {

/// A few times what it takes to wake a processor that has gone to sleep. Whoever sends pays for
/// that, more than for a short message.
inline constexpr std::chrono::microseconds awake_time{100};

/// As poll, but stays awake up to `end`, and gives way to others that want its processor.
int awake_poll(std::span<pollfd> waiting, std::chrono::milliseconds time, Clock::time_point end);

}  // namespace datamover::stream

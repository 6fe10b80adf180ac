// SPDX-License-Identifier: BSD-3-Clause
// How does a program wait for connections that may bring something in a moment?
#include "stream/awake_poll.hpp"

#include <sched.h>

#include "stream/connection.hpp"

namespace datamover::stream {
namespace {

/// A few times what it takes to wake a processor that has gone to sleep.
constexpr std::chrono::microseconds awake_time{100};

}  // namespace

int awake_poll(std::span<pollfd> waiting, std::chrono::milliseconds time) {
    const Clock::time_point end = Clock::now() + std::min<Clock::duration>(awake_time, time);
    while (Clock::now() < end) {
        if (const int found = ::poll(waiting.data(), waiting.size(), 0); found != 0) return found;
        ::sched_yield();
    }
    return ::poll(waiting.data(), waiting.size(), static_cast<int>(time.count()));
}

}  // namespace datamover::stream

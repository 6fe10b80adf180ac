// SPDX-License-Identifier: BSD-3-Clause
// A poll that stays awake for a short time before it blocks.
#include "stream/awake_poll.hpp"

#include <sched.h>

namespace datamover::stream {

int awake_poll(std::span<pollfd> waiting, std::chrono::milliseconds time, Clock::time_point end) {
    while (time.count() > 0 && Clock::now() < end) {
        if (const int found = ::poll(waiting.data(), waiting.size(), 0); found != 0) return found;
        ::sched_yield();
    }
    return ::poll(waiting.data(), waiting.size(), static_cast<int>(time.count()));
}

}  // namespace datamover::stream

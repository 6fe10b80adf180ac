// SPDX-License-Identifier: BSD-3-Clause
// Sleeping on a word of shared memory (futex). Where it cannot, a short sleep does.
#include "memory/bell.hpp"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#else
#include <algorithm>
#include <thread>
#endif

namespace datamover::memory {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

#ifdef __linux__

void Bell::wake() noexcept {
    rings_.fetch_add(1);
    ::syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Bell::sleep_unless_rung(std::uint32_t heard, std::chrono::nanoseconds longest) noexcept {
    using std::chrono::seconds;
    const auto whole = std::chrono::duration_cast<seconds>(longest);
    const timespec time{static_cast<std::time_t>(whole.count()),
                        static_cast<long>((longest - whole).count())};
    ::syscall(SYS_futex, &rings_, FUTEX_WAIT, heard, &time, nullptr, 0);
}

#else

void Bell::wake() noexcept {
    rings_.fetch_add(1);
}

void Bell::sleep_unless_rung(std::uint32_t heard, std::chrono::nanoseconds longest) noexcept {
    constexpr std::chrono::microseconds moment{50};
    if (rings_.load() == heard)
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(longest, moment));
}

#endif

}  // namespace datamover::memory

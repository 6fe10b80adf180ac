// SPDX-License-Identifier: BSD-3-Clause
// How does a process wait without taking the processor from those it waits for?
#pragma once

#include <sched.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace datamover {

/// Spins for a while, then yields at every turn. With more processes than cores it yields at once.
class Backoff {
public:
    explicit Backoff(int spins) : spins_left_(spins) {}

    void pause() {
        if (spins_left_ > 0) {
            --spins_left_;
#if defined(__x86_64__) || defined(__i386__)
            _mm_pause();
#endif
        } else {
            sched_yield();
        }
    }

private:
    int spins_left_;
};

}  // namespace datamover

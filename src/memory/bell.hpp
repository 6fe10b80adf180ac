// SPDX-License-Identifier: BSD-3-Clause
// Bells in shared memory: a process sleeps until another process of the node wakes it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace datamover::memory {

/// Lies in memory that processes share, zeroed. Whoever has written something rings; whoever sleeps
/// meanwhile wakes, and looks whether it is what it waits for. What is written and looked at are
/// atomics, in one order for all (memory_order_seq_cst): either the ringer sees the sleeper, or the
/// sleeper what was written.
class Bell {
public:
    /// Wakes all who sleep. Where nobody does, it costs one load.
    void ring() noexcept {
        if (sleepers_.load() > 0) wake();
    }

    /// Sleeps until the bell rings, or `longest` has passed; not at all where `is_done` says so.
    template <class IsDone>
    void sleep(std::chrono::nanoseconds longest, IsDone&& is_done) {
        const std::uint32_t heard = rings_.load();
        sleepers_.fetch_add(1);
        if (!is_done()) sleep_unless_rung(heard, longest);
        sleepers_.fetch_sub(1);
    }

private:
    void wake() noexcept;
    void sleep_unless_rung(std::uint32_t heard, std::chrono::nanoseconds longest) noexcept;

    std::atomic<std::uint32_t> rings_{0}, sleepers_{0};
};

}  // namespace datamover::memory

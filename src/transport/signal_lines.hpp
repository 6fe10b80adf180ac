// SPDX-License-Identifier: BSD-3-Clause
// How do two processes of a node tell each other how far they are, without a barrier?
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace datamover::transport {

/// Whether data comes to this process, or leaves it.
enum Direction : std::size_t { incoming = 0, outgoing = 1 };

/// One cache line, owned (read) by one process and written by one other. The values are numbers of
/// rounds: `go` says that the writer has begun round n (its array may be accessed), `done` that it
/// has finished copying in round n.
struct alignas(64) SignalLine {
    std::atomic<std::uint64_t> go[2];
    std::atomic<std::uint64_t> done[2];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(SignalLine) == 64);

inline SignalLine& signal_line(std::byte* lines, std::size_t number) {
    return reinterpret_cast<SignalLine*>(lines)[number];
}

/// Puts zeroed lines into fresh memory.
inline void clear_signal_lines(std::byte* lines, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        new (lines + sizeof(SignalLine) * i) SignalLine{};
}

}  // namespace datamover::transport

// SPDX-License-Identifier: BSD-3-Clause
// How do two processes of a node tell each other how far they are, without a barrier?
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace datamover::transport {

/// Whether a signal concerns data that comes to the owner of the line, or that leaves it.
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

/// Line `writer` (a position on the node) among those that a process owns for one mover.
inline SignalLine& signal_line(std::byte* control, int writer) {
    return reinterpret_cast<SignalLine*>(control)[writer];
}

inline std::int64_t signal_bytes(int node_size) {
    return static_cast<std::int64_t>(sizeof(SignalLine)) * node_size;
}

/// Puts zeroed lines into fresh memory.
inline void clear_signal_lines(std::byte* control, int node_size) {
    for (int i = 0; i < node_size; ++i)
        new (control + sizeof(SignalLine) * static_cast<std::size_t>(i)) SignalLine{};
}

}  // namespace datamover::transport

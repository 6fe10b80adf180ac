// SPDX-License-Identifier: BSD-3-Clause
// Signals and slots in the shared memory of a node: progress counters of a pair, and memory through
// which chunks pass.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "memory/cache_lines.hpp"

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
/// The line before them, the owner's number of the binding; 0: the lines are given back. Peers read
/// it in every round, so it has a line of its own, which nobody writes meanwhile: the look at it
/// then costs nothing.
struct alignas(64) BindingLine {
    std::atomic<std::uint64_t> number;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(SignalLine) == 64 && sizeof(BindingLine) == 64);

inline std::int64_t signal_memory_bytes(std::size_t lines) {
    return static_cast<std::int64_t>(sizeof(BindingLine) + lines * sizeof(SignalLine));
}

inline BindingLine& binding_line(std::byte* memory) {
    return *reinterpret_cast<BindingLine*>(memory);
}

inline SignalLine& signal_line(std::byte* memory, std::size_t number) {
    return reinterpret_cast<SignalLine*>(memory + sizeof(BindingLine))[number];
}

/// Puts zeroed lines of a binding into fresh memory.
inline void clear_signal_lines(std::byte* memory, std::size_t count, std::uint64_t binding) {
    new (memory) BindingLine{binding};
    for (std::size_t i = 0; i < count; ++i)
        new (memory + sizeof(BindingLine) + sizeof(SignalLine) * i) SignalLine{};
}

/// Marks lines as given back: a peer that has not heard must not write there any more.
inline void retire_signal_lines(std::byte* memory) {
    binding_line(memory).number.store(0, std::memory_order_release);
}

/// Memory of the receiver: two lines of signals, then slots of equal size, used in turn. The sender
/// counts the chunks that it has filled, the receiver those that it has drained. Beside the
/// sender's count stands the receiver's number of the binding, 0 once the ring is gone: the sender
/// looks at it in every round, and has that line at hand.
struct SlotRing {
    static constexpr std::int64_t line_bytes = memory::line_bytes;
    static constexpr std::int64_t signal_bytes = 2 * line_bytes;

    std::byte* data = nullptr;
    std::int64_t slot_bytes = 0;
    std::int64_t slots = 0;
    std::shared_ptr<const void> memory;  ///< keeps the mapping

    using Count = std::atomic<std::uint64_t>;

    std::int64_t bytes() const { return signal_bytes + slots * slot_bytes; }
    Count& filled() const { return *reinterpret_cast<Count*>(data); }
    Count& drained() const { return *reinterpret_cast<Count*>(data + line_bytes); }
    Count& binding() const { return *reinterpret_cast<Count*>(data + sizeof(Count)); }
    std::byte* slot(std::uint64_t chunk) const {
        return data + signal_bytes +
               static_cast<std::int64_t>(chunk % static_cast<std::uint64_t>(slots)) * slot_bytes;
    }
    /// Puts counts of zero into fresh memory.
    void clear_counts(std::uint64_t number) const {
        new (data) Count(0);
        new (data + line_bytes) Count(0);
        new (data + sizeof(Count)) Count(number);
    }
};

}  // namespace datamover::transport

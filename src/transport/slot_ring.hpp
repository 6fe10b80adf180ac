// SPDX-License-Identifier: BSD-3-Clause
// Slot rings: shared memory through which one process passes chunks to another.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "memory/cache_lines.hpp"

namespace datamover::transport {

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

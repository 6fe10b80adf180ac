// SPDX-License-Identifier: BSD-3-Clause
// Index of records, to find an equal one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace datamover::geometry {

inline std::uint64_t hash_words(std::span<const std::int64_t> words) {
    std::uint64_t hash = words.size();
    for (const std::int64_t word : words) {
        hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 32;
    }
    return hash;
}

/// Numbers of records by their hashes, in one table with open addressing. The records themselves,
/// numbered from 0, are the caller's.
class RecordIndex {
public:
    /// The number of a record with this hash for which equals(number) is true, or -1. O(1).
    template <class Equals>
    std::int64_t find(std::uint64_t hash, Equals&& equals) const {
        if (slots_.empty()) {
            for (std::size_t i = 0; i < count_; ++i)
                if (first_[i].hash == hash && equals(first_[i].number)) return first_[i].number;
            return -1;
        }
        for (std::size_t i = hash & mask();; i = (i + 1) & mask()) {
            const Slot& slot = slots_[i];
            if (slot.number < 0) return -1;
            if (slot.hash == hash && equals(slot.number)) return slot.number;
        }
    }
    /// Notes a record that `find` has not found. O(1) on average.
    void insert(std::uint64_t hash, std::int64_t number) {
        if (slots_.empty() && count_ < few) {
            first_[count_++] = {hash, number};
            return;
        }
        if (2 * (count_ + 1) > slots_.size()) grow();
        put({hash, number});
        ++count_;
    }

private:
    struct Slot {
        std::uint64_t hash = 0;
        std::int64_t number = -1;
    };

    std::size_t mask() const { return slots_.size() - 1; }
    void put(Slot slot) {
        std::size_t i = slot.hash & mask();
        while (slots_[i].number >= 0) i = (i + 1) & mask();
        slots_[i] = slot;
    }
    void grow() {
        std::vector<Slot> old(slots_.empty() ? 4 * few : 2 * slots_.size());
        old.swap(slots_);
        if (old.empty())
            for (const Slot& slot : first_) put(slot);
        for (const Slot& slot : old)
            if (slot.number >= 0) put(slot);
    }

    static constexpr std::size_t few = 4;
    std::array<Slot, few> first_;  // all of them while they are few: nothing is allocated
    std::vector<Slot> slots_;      // a power of two of them
    std::size_t count_ = 0;
};

}  // namespace datamover::geometry

// SPDX-License-Identifier: BSD-3-Clause
// Pools of shared segments, and offers: which process finds which memory where.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datamover/point.hpp"
#include "shared_segment.hpp"

namespace datamover::memory {

/// Some bytes, aligned to 64: in a shared segment, or in private memory where none can be made.
/// Goes back to its pool with the last reference, locally.
struct Allocation {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    std::shared_ptr<SharedSegment> segment;  ///< null: private memory
    std::int64_t segment_offset_bytes = 0;
    std::string why_private;  ///< what went wrong, where shared memory was wanted
};
using AllocationPtr = std::shared_ptr<const Allocation>;

/// Shared segments of this process, used again after they are given back, since fresh pages cost
/// more than the copy. Small allocations share a segment. Thread-safe.
class SegmentPool {
public:
    /// The one of this process; it is never destroyed.
    static SegmentPool& of_process();

    /// Shared memory. Throws no_memory.
    AllocationPtr allocate_shared(std::int64_t bytes);
    /// Shared memory, or private where there is none.
    AllocationPtr allocate(std::int64_t bytes);
    /// Private memory. Throws no_memory.
    static AllocationPtr allocate_private(std::int64_t bytes);
    /// Private memory in pages where nothing else lies. Throws no_memory.
    static AllocationPtr allocate_pages(std::int64_t bytes);
    /// Memory that somebody else has mapped, on this process and on others: found here for as long
    /// as the reference lives. Throws invalid_argument where it is not shared.
    AllocationPtr adopt(std::byte* data, std::int64_t bytes);
    /// The shared allocation that a range of addresses lies in, or null. O(log allocations).
    AllocationPtr find(const std::byte* begin, const std::byte* end) const;

private:
    using Room = std::map<std::int64_t, std::int64_t>;  ///< offset to length, in bytes
    struct Slab {
        std::shared_ptr<SharedSegment> segment;
        Room free{};
    };
    /// Keeps its entry among what is free, so that nothing is allocated when it goes back.
    struct Pooled : Allocation {
        Room::node_type room;
    };

    SegmentPool() = default;
    void take(Slab& slab, Room::iterator from, std::int64_t bytes,
              const std::shared_ptr<Pooled>& taken);
    void give_back(Pooled& allocation);
    std::int64_t idle_bytes() const;

    mutable std::mutex mutex_;
    std::vector<Slab> slabs_;
    std::map<const std::byte*, std::weak_ptr<const Allocation>> used_;  ///< by first address
};

/// Segments of other processes that are mapped here, each once by the library. Those that hold many
/// small allocations stay mapped for a while, since the next mover will want them too. Thread-safe.
class SegmentMap {
public:
    /// The one of this process; it is never destroyed.
    static SegmentMap& of_process();

    /// Throws no_memory when the segment cannot be mapped.
    std::shared_ptr<SharedSegment> open(const SegmentName& name);

private:
    SegmentMap() = default;
    std::mutex mutex_;
    std::map<SegmentName, std::weak_ptr<SharedSegment>> open_;
    std::deque<std::shared_ptr<SharedSegment>> kept_;  ///< the last one mapped at the end
};

/// A place in the shared memory of a process.
struct SharedPlace {
    SegmentName name;
    std::int64_t offset_bytes = 0;  ///< in the segment
};

/// The place of an allocation, or of `begin` in it; none for private memory and for null.
std::optional<SharedPlace> place_of(const Allocation* allocation, const std::byte* begin = nullptr);

void put_offer(std::vector<std::int64_t>& words, const std::optional<SharedPlace>& place);
inline void put_offer(std::vector<std::int64_t>& words, const Allocation* allocation) {
    put_offer(words, place_of(allocation));
}
void put_offer(std::vector<std::int64_t>& words, const Point& point);

/// Reads words in the order in which they were put. Throws invalid_state where there are no more.
class OfferReader {
public:
    explicit OfferReader(std::span<const std::int64_t> words) : words_(words) {}

    std::int64_t next();
    Point point(int dims);
    std::optional<SharedPlace> shared_place();

private:
    std::span<const std::int64_t> words_;
};

}  // namespace datamover::memory

// SPDX-License-Identifier: BSD-3-Clause
// Where does the memory of library arrays come from, and where does it go back to?
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "shared_segment.hpp"

namespace datamover::memory {

class SegmentPool;

/// Some bytes, aligned to 64. In a shared segment where that was to be had, else private. Goes back
/// to its pool with the last reference, locally.
struct Allocation {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    std::shared_ptr<SharedSegment> segment;  ///< null: private memory
    std::int64_t segment_offset_bytes = 0;
};
using AllocationPtr = std::shared_ptr<const Allocation>;

/// Shared segments of this process, used again after they are given back, since fresh pages cost
/// more than the copy. Small allocations share a segment. Thread-safe.
class SegmentPool : public std::enable_shared_from_this<SegmentPool> {
public:
    /// Shared memory. Throws no_memory.
    AllocationPtr allocate_shared(std::int64_t bytes);
    /// Shared memory, or private where that cannot be had.
    AllocationPtr allocate(std::int64_t bytes);
    /// Private memory. Throws no_memory.
    static AllocationPtr allocate_private(std::int64_t bytes);

private:
    struct Slab {
        std::shared_ptr<SharedSegment> segment;
        std::map<std::int64_t, std::int64_t> free;  ///< offset to length, in bytes
    };

    AllocationPtr take(Slab& slab, std::int64_t offset, std::int64_t bytes);
    void give_back(SharedSegment* segment, std::int64_t offset, std::int64_t bytes);
    std::int64_t idle_bytes() const;

    std::mutex mutex_;
    std::vector<Slab> slabs_;
};

/// Maps segments of other processes, each once for as long as someone uses it.
class SegmentMap {
public:
    std::shared_ptr<SharedSegment> open(const SegmentName& name);

private:
    std::mutex mutex_;
    std::map<SegmentName, std::weak_ptr<SharedSegment>> open_;
};

}  // namespace datamover::memory

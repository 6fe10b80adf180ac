// SPDX-License-Identifier: BSD-3-Clause
// Where does the memory of library arrays come from, and where does it go back to?
#include "segment_pool.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "datamover/error.hpp"

namespace datamover::memory {
namespace {

constexpr std::int64_t alignment_bytes = 64;
constexpr std::int64_t small_slab_bytes = std::int64_t{4} << 20;
constexpr std::int64_t page_bytes = std::int64_t{2} << 20;
/// More than this is not kept idle.
constexpr std::int64_t kept_bytes = std::int64_t{4} << 30;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) {
    return (std::max<std::int64_t>(bytes, 1) + unit - 1) / unit * unit;
}

}  // namespace

AllocationPtr SegmentPool::take(Slab& slab, std::int64_t offset, std::int64_t bytes) {
    const auto free = slab.free.find(offset);
    const std::int64_t rest = free->second - bytes;
    slab.free.erase(free);
    if (rest > 0) slab.free.emplace(offset + bytes, rest);
    const auto back = [pool = shared_from_this()](const Allocation* a) {
        pool->give_back(a->segment.get(), a->segment_offset_bytes, a->bytes);
        delete a;
    };
    return {new Allocation{slab.segment->data() + offset, bytes, slab.segment, offset}, back};
}

AllocationPtr SegmentPool::allocate_shared(std::int64_t bytes) {
    bytes = rounded_up(bytes, alignment_bytes);
    const std::lock_guard lock(mutex_);
    Slab* best = nullptr;
    std::int64_t best_offset = 0, best_length = 0;
    for (Slab& slab : slabs_)
        for (const auto& [offset, length] : slab.free)
            if (length >= bytes && (!best || length < best_length))
                best = &slab, best_offset = offset, best_length = length;
    if (best) return take(*best, best_offset, bytes);
    const std::int64_t slab_bytes =
        bytes < small_slab_bytes ? small_slab_bytes : rounded_up(bytes, page_bytes);
    slabs_.push_back({SharedSegment::create(slab_bytes), {{0, slab_bytes}}});
    return take(slabs_.back(), 0, bytes);
}

AllocationPtr SegmentPool::allocate_private(std::int64_t bytes) {
    bytes = rounded_up(bytes, alignment_bytes);
    void* data = std::aligned_alloc(alignment_bytes, static_cast<std::size_t>(bytes));
    if (!data)
        throw Error(ErrorCode::no_memory,
                    std::to_string(bytes) + " bytes of memory are not to be had");
    return {new Allocation{static_cast<std::byte*>(data), bytes, nullptr, 0},
            [](const Allocation* a) {
                std::free(a->data);
                delete a;
            }};
}

AllocationPtr SegmentPool::allocate(std::int64_t bytes) {
    try {
        return allocate_shared(bytes);
    } catch (const Error&) {
        return allocate_private(bytes);
    }
}

std::int64_t SegmentPool::idle_bytes() const {
    std::int64_t idle = 0;
    for (const Slab& slab : slabs_)
        for (const auto& [offset, length] : slab.free) idle += length;
    return idle;
}

void SegmentPool::give_back(SharedSegment* segment, std::int64_t offset, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto slab = std::find_if(slabs_.begin(), slabs_.end(),
                                   [&](const Slab& s) { return s.segment.get() == segment; });
    auto here = slab->free.emplace(offset, bytes).first;
    const auto next = std::next(here);
    if (next != slab->free.end() && here->first + here->second == next->first) {
        here->second += next->second;
        slab->free.erase(next);
    }
    if (here != slab->free.begin()) {
        const auto before = std::prev(here);
        if (before->first + before->second == here->first) {
            before->second += here->second;
            slab->free.erase(here);
        }
    }
    const bool all_free = slab->free.size() == 1 && slab->free.begin()->second == segment->bytes();
    if (all_free && idle_bytes() > kept_bytes) slabs_.erase(slab);
}

std::shared_ptr<SharedSegment> SegmentMap::open(const SegmentName& name) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<SharedSegment>& known = open_[name];
    if (auto segment = known.lock()) return segment;
    auto segment = SharedSegment::open(name);
    known = segment;
    return segment;
}

}  // namespace datamover::memory

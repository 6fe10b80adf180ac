// SPDX-License-Identifier: BSD-3-Clause
// Pools of shared segments, and offers: which process finds which memory where.
#include "segment_pool.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "cache_lines.hpp"
#include "datamover/error.hpp"
#include "geometry/make_error.hpp"
#include "large_pages.hpp"

namespace datamover::memory {
namespace {

constexpr std::int64_t small_slab_bytes = std::int64_t{4} << 20;
constexpr std::int64_t page_bytes = std::int64_t{2} << 20;
/// Segments of other processes that stay mapped although nobody uses them.
constexpr std::size_t most_kept = 32;
/// Beyond so many, names of segments that are gone are forgotten.
constexpr std::size_t most_known = 256;
/// More than this is not kept idle.
constexpr std::int64_t kept_bytes = std::int64_t{4} << 30;

AllocationPtr private_memory(std::int64_t bytes, std::int64_t alignment_bytes,
                             std::string why = {}) {
    require_available(bytes);
    bytes = rounded_up(std::max<std::int64_t>(bytes, 1), alignment_bytes);
    void* data = std::aligned_alloc(static_cast<std::size_t>(alignment_bytes),
                                    static_cast<std::size_t>(bytes));
    if (!data)
        throw make_error(ErrorCode::no_memory, bytes, " bytes of memory cannot be allocated");
    return {new Allocation{static_cast<std::byte*>(data), bytes, nullptr, 0, std::move(why)},
            [](const Allocation* a) {
                std::free(a->data);
                delete a;
            }};
}

}  // namespace

SegmentPool& SegmentPool::of_process() {
    static auto* pool = new SegmentPool;
    return *pool;
}

/// Under the lock. Where it throws, nothing is taken.
void SegmentPool::take(Slab& slab, Room::iterator from, std::int64_t bytes,
                       const std::shared_ptr<Pooled>& taken) {
    const auto [offset, length] = *from;
    Room rest;
    if (length > bytes) rest.emplace(offset + bytes, length - bytes);
    std::byte* const data = slab.segment->data() + offset;
    used_[data] = taken;
    taken->data = data;
    taken->bytes = bytes;
    taken->segment = slab.segment;
    taken->segment_offset_bytes = offset;
    taken->room = slab.free.extract(from);
    taken->room.mapped() = bytes;
    slab.free.merge(rest);
}

AllocationPtr SegmentPool::find(const std::byte* begin, const std::byte* end) const {
    // Outlives the lock: the last reference goes back to this pool.
    AllocationPtr found;
    const std::lock_guard lock(mutex_);
    const auto after = used_.upper_bound(begin);
    if (after == used_.begin()) return nullptr;
    found = std::prev(after)->second.lock();
    return found && end <= found->data + found->bytes ? found : nullptr;
}

AllocationPtr SegmentPool::adopt(std::byte* data, std::int64_t bytes) {
    auto segment = SharedSegment::foreign(data, bytes);
    // What is known of these addresses may be memory that was freed and mapped anew.
    AllocationPtr known = find(data, data + bytes);
    if (known && known->data == data && known->segment->name() == segment->name()) return known;
    const AllocationPtr adopted(new Allocation{data, bytes, std::move(segment), 0, {}},
                                [this](const Allocation* a) {
                                    {
                                        const std::lock_guard guard(mutex_);
                                        const auto entry = used_.find(a->data);
                                        if (entry != used_.end() && entry->second.expired())
                                            used_.erase(entry);
                                    }
                                    delete a;
                                });
    const std::lock_guard lock(mutex_);
    used_[data] = adopted;
    return adopted;
}

AllocationPtr SegmentPool::allocate_shared(std::int64_t bytes) {
    bytes = whole_lines(std::max<std::int64_t>(bytes, 1));
    // Outlives the lock, which its end takes too.
    const std::shared_ptr<Pooled> taken(new Pooled, [this](Pooled* a) {
        if (a->room) give_back(*a);
        delete a;
    });
    const std::lock_guard lock(mutex_);
    Slab* best = nullptr;
    Room::iterator from;
    for (Slab& slab : slabs_)
        for (auto free = slab.free.begin(); free != slab.free.end(); ++free)
            if (free->second >= bytes && (!best || free->second < from->second))
                best = &slab, from = free;
    if (!best) {
        const std::int64_t slab_bytes =
            bytes < small_slab_bytes ? small_slab_bytes : rounded_up(bytes, page_bytes);
        best = &slabs_.emplace_back(Slab{SharedSegment::create(slab_bytes), {{0, slab_bytes}}});
        from = best->free.begin();
    }
    take(*best, from, bytes, taken);
    return taken;
}

AllocationPtr SegmentPool::allocate_private(std::int64_t bytes) {
    return private_memory(bytes, line_bytes);
}

AllocationPtr SegmentPool::allocate_pages(std::int64_t bytes) {
    return private_memory(bytes, ::sysconf(_SC_PAGESIZE));
}

AllocationPtr SegmentPool::allocate(std::int64_t bytes) {
    try {
        return allocate_shared(bytes);
    } catch (const Error& e) {
        return private_memory(bytes, line_bytes, e.what());
    }
}

std::int64_t SegmentPool::idle_bytes() const {
    std::int64_t idle = 0;
    for (const Slab& slab : slabs_)
        for (const auto& [offset, length] : slab.free) idle += length;
    return idle;
}

void SegmentPool::give_back(Pooled& allocation) {
    const std::lock_guard lock(mutex_);
    used_.erase(allocation.data);
    const SharedSegment* segment = allocation.segment.get();
    const auto slab =
        std::ranges::find_if(slabs_, [&](const Slab& s) { return s.segment.get() == segment; });
    auto here = slab->free.insert(std::move(allocation.room)).position;
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

SegmentMap& SegmentMap::of_process() {
    static auto* map = new SegmentMap;
    return *map;
}

std::shared_ptr<SharedSegment> SegmentMap::open(const SegmentName& name) {
    // Whoever maps it may do so anew, elsewhere.
    if (name.is_foreign()) return SharedSegment::open(name);
    const std::lock_guard lock(mutex_);
    if (open_.size() > most_known)
        std::erase_if(open_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<SharedSegment>& known = open_[name];
    if (auto segment = known.lock()) return segment;
    auto segment = SharedSegment::open(name);
    known = segment;
    if (name.bytes <= small_slab_bytes) {
        kept_.push_back(segment);
        if (kept_.size() > most_kept) kept_.pop_front();
    }
    return segment;
}

std::optional<SharedPlace> place_of(const Allocation* allocation, const std::byte* begin) {
    if (!allocation || !allocation->segment) return {};
    const std::int64_t skipped_bytes = begin ? begin - allocation->data : 0;
    return SharedPlace{allocation->segment->name(),
                       allocation->segment_offset_bytes + skipped_bytes};
}

/// All its members are words.
using PlaceWords = std::array<std::int64_t, sizeof(SharedPlace) / sizeof(std::int64_t)>;

void put_offer(std::vector<std::int64_t>& words, const std::optional<SharedPlace>& place) {
    words.push_back(place ? 1 : 0);
    if (!place) return;
    const auto all = std::bit_cast<PlaceWords>(*place);
    words.insert(words.end(), all.begin(), all.end());
}

void put_offer(std::vector<std::int64_t>& words, const Point& point) {
    for (int d = 0; d < point.dims(); ++d) words.push_back(point[d]);
}

std::int64_t OfferReader::next() {
    if (words_.empty())
        throw Error(
            ErrorCode::invalid_state,
            "internal error: the memory description of a process of this node is incomplete");
    const std::int64_t word = words_.front();
    words_ = words_.subspan(1);
    return word;
}

Point OfferReader::point(int dims) {
    Point p = Point::filled(dims, 0);
    for (int d = 0; d < dims; ++d) p[d] = next();
    return p;
}

std::optional<SharedPlace> OfferReader::shared_place() {
    if (next() == 0) return {};
    PlaceWords all;
    for (std::int64_t& word : all) word = next();
    return std::bit_cast<SharedPlace>(all);
}

}  // namespace datamover::memory

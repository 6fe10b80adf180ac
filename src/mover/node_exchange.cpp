// SPDX-License-Identifier: BSD-3-Clause
// What do the processes of a node tell each other when a mover is bound?
#include "node_exchange.hpp"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "memory/process_memory.hpp"

namespace datamover {
namespace {

using Words = std::vector<std::int64_t>;

void put(Words& words, const Point& point) {
    for (int d = 0; d < point.dims(); ++d) words.push_back(point[d]);
}

void put(Words& words, const memory::Allocation* allocation) {
    if (!allocation || !allocation->segment) {
        words.push_back(0);
        return;
    }
    const memory::SegmentName& name = allocation->segment->name();
    words.insert(words.end(), {1, name.pid, name.fd, name.device, name.inode, name.bytes,
                               allocation->segment_offset_bytes});
}

std::int64_t address_of(const void* p) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p));
}

/// A word that others look for, to be sure that they read this process's memory and no other's.
const std::int64_t& own_mark() {
    static const std::int64_t mark = std::chrono::steady_clock::now().time_since_epoch().count() ^
                                     (std::int64_t{getpid()} << 32);
    return mark;
}

/// An array that cannot be reached needs no description of its blocks.
void put(Words& words, const ArrayPart& part, bool describe) {
    put(words, part.allocation.get());
    const bool shared = part.allocation && part.allocation->segment;
    words.push_back(shared || describe);
    if (!shared && !describe) return;
    words.insert(words.end(),
                 {address_of(part.base), part.memory.begin_bytes, part.memory.end_bytes});
    words.push_back(static_cast<std::int64_t>(part.memory.blocks.size()));
    for (const BlockMemory& b : part.memory.blocks) {
        words.insert(words.end(), {b.block, b.offset_bytes, b.strides_bytes.dims()});
        put(words, b.strides_bytes);
        put(words, b.valid.lo());
        put(words, b.valid.hi());
    }
}

/// Reads in the order of `put`.
class Reader {
public:
    Reader(const Words& words, memory::SegmentMap& segments) : words_(words), segments_(segments) {}

    std::int64_t next() { return words_[at_++]; }

    Point point(int dims) {
        Point p = Point::filled(dims, 0);
        for (int d = 0; d < dims; ++d) p[d] = next();
        return p;
    }

    /// The segment (mapped, or null when mapping failed) and the address in it; false: not shared.
    bool segment(std::shared_ptr<memory::SharedSegment>& segment, std::byte*& address,
                 bool& mapped) {
        if (next() == 0) return false;
        const memory::SegmentName name{next(), next(), next(), next(), next()};
        const std::int64_t offset = next();
        try {
            segment = segments_.open(name);
            address = segment->data() + offset;
        } catch (const Error&) {
            mapped = false;
        }
        return true;
    }

    /// True when the array is shared. One that is described but not shared is tried to be read.
    bool array(transport::PeerArray& array, bool& mapped, std::int64_t pid, bool& readable) {
        const bool shared = segment(array.segment, array.base, mapped);
        if (next() == 0) return shared;
        const std::int64_t base = next();
        array.address = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(base));
        array.memory.begin_bytes = next();
        array.memory.end_bytes = next();
        if (!shared && array.memory.end_bytes > array.memory.begin_bytes)
            readable = readable && can_read(pid, base + array.memory.begin_bytes) &&
                       can_read(pid, base + array.memory.end_bytes - 1);
        const std::int64_t count = next();
        for (std::int64_t i = 0; i < count; ++i) {
            BlockMemory b;
            b.block = next();
            b.offset_bytes = next();
            const int dims = static_cast<int>(next());
            b.strides_bytes = point(dims);
            const Point lo = point(dims), hi = point(dims);
            b.valid = Region(lo, hi);
            array.memory.blocks.push_back(std::move(b));
        }
        return shared;
    }

    /// Whether the marked word of a process is where it says.
    bool mark_is_there(std::int64_t pid, bool try_reading) {
        const std::int64_t address = next(), mark = next();
        std::int64_t found = 0;
        return try_reading &&
               memory::read_from_process(pid, static_cast<std::uint64_t>(address), &found,
                                         sizeof(found)) &&
               found == mark;
    }

private:
    static bool can_read(std::int64_t pid, std::int64_t address) {
        char byte = 0;
        return memory::read_from_process(pid, static_cast<std::uint64_t>(address), &byte, 1);
    }

    const Words& words_;
    memory::SegmentMap& segments_;
    std::size_t at_ = 0;
};

}  // namespace

NodeOffers exchange_on_node(const mpi::ProcessGroup& group, const ArrayPart& source,
                            const ArrayPart& destination, const memory::AllocationPtr& control,
                            bool try_reading) {
    Words mine{getpid(), address_of(&own_mark()), own_mark()};
    put(mine, control.get());
    put(mine, source, try_reading);
    put(mine, destination, try_reading);
    const auto all = group.gather_on_node(mine);
    NodeOffers offers;
    offers.readable = offers.permitted = try_reading;
    for (std::size_t i = 0; i < all.size(); ++i) {
        transport::NodePeer peer;
        peer.rank = group.node_ranks()[i];
        Reader reader(all[i], group.segments());
        peer.pid = reader.next();
        const bool permitted = reader.mark_is_there(peer.pid, try_reading);
        bool readable = permitted;
        const bool signals = reader.segment(peer.control_segment, peer.control, offers.mapped);
        const bool source_shared = reader.array(peer.source, offers.mapped, peer.pid, readable);
        const bool destination_shared =
            reader.array(peer.destination, offers.mapped, peer.pid, readable);
        offers.readable = offers.readable && readable;
        offers.permitted = offers.permitted && permitted;
        offers.source_shared.push_back(signals && source_shared);
        offers.destination_shared.push_back(signals && destination_shared);
        offers.peers.push_back(std::move(peer));
    }
    return offers;
}

}  // namespace datamover

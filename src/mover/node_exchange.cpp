// SPDX-License-Identifier: BSD-3-Clause
// What do the processes of a node tell each other when a mover is bound?
#include "node_exchange.hpp"

#include <utility>

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

/// An array that cannot be reached needs no description of its blocks.
void put(Words& words, const ArrayPart& part) {
    put(words, part.allocation.get());
    if (!part.allocation || !part.allocation->segment) return;
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

    bool array(transport::PeerArray& array, bool& mapped) {
        if (!segment(array.segment, array.base, mapped)) return false;
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
        return true;
    }

private:
    const Words& words_;
    memory::SegmentMap& segments_;
    std::size_t at_ = 0;
};

}  // namespace

NodeOffers exchange_on_node(const mpi::ProcessGroup& group, const ArrayPart& source,
                            const ArrayPart& destination, const memory::AllocationPtr& control) {
    Words mine;
    put(mine, control.get());
    put(mine, source);
    put(mine, destination);
    const auto all = group.gather_on_node(mine);
    NodeOffers offers;
    for (std::size_t i = 0; i < all.size(); ++i) {
        transport::NodePeer peer;
        peer.rank = group.node_ranks()[i];
        Reader reader(all[i], group.segments());
        const bool signals = reader.segment(peer.control_segment, peer.control, offers.mapped);
        const bool source_shared = reader.array(peer.source, offers.mapped);
        const bool destination_shared = reader.array(peer.destination, offers.mapped);
        offers.source_shared.push_back(signals && source_shared);
        offers.destination_shared.push_back(signals && destination_shared);
        offers.peers.push_back(std::move(peer));
    }
    return offers;
}

}  // namespace datamover

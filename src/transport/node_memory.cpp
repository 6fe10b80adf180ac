// SPDX-License-Identifier: BSD-3-Clause
// Arrays of other processes of the node, as offered by them and mapped here.
#include "node_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "geometry/make_error.hpp"

namespace datamover::transport {
namespace {

using memory::OfferReader;
using memory::put_offer;

using Words = std::vector<std::int64_t>;

/// An array that cannot be reached needs no description of its blocks.
void put_array(Words& words, const ArrayPart& part, bool describe_private) {
    const auto place = memory::place_of(part.allocation.get(), part.base);
    put_offer(words, place);
    const bool describe = place || describe_private;
    words.push_back(describe);
    if (!describe) return;
    words.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(part.base)));
    words.push_back(static_cast<std::int64_t>(part.memory.blocks.size()));
    for (const BlockMemory& b : part.memory.blocks) {
        words.insert(words.end(), {b.block, b.offset_bytes, b.strides_bytes.dims()});
        put_offer(words, b.strides_bytes);
        put_offer(words, b.valid.lo());
        put_offer(words, b.valid.hi());
    }
}

PeerArray read_array(OfferReader& words) {
    PeerArray array;
    array.place = words.shared_place();
    array.described = words.next() != 0;
    if (!array.described) return array;
    array.address = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(words.next()));
    array.memory.blocks.resize(static_cast<std::size_t>(words.next()));
    for (BlockMemory& b : array.memory.blocks) {
        b.block = words.next();
        b.offset_bytes = words.next();
        const int dims = static_cast<int>(words.next());
        b.strides_bytes = words.point(dims);
        const Point lo = words.point(dims), hi = words.point(dims);
        b.valid = Region(lo, hi);
    }
    return array;
}

}  // namespace

std::vector<std::int64_t> offer_to_node(std::span<const OwnArrays> arrays,
                                        const memory::Allocation* signals, bool describe_private) {
    Words words{getpid()};
    put_offer(words, signals);
    for (const OwnArrays& own : arrays)
        for (const Side side : both_sides) put_array(words, *own[side], describe_private);
    return words;
}

NodeMemory::NodeMemory(const mpi::ProcessGroup& group,
                       std::vector<std::vector<std::int64_t>> offers, std::size_t motions)
    : group_(group), offers_(std::move(offers)), motions_(motions), peers_(offers_.size()) {}

const NodePeer& NodeMemory::peer(std::int64_t rank) {
    const int position = group_.node_position(rank);
    if (position < 0)
        throw make_error(ErrorCode::invalid_argument, "process ", rank, " is on another node");
    auto& known = peers_[static_cast<std::size_t>(position)];
    if (known) return *known;
    OfferReader words(offers_[static_cast<std::size_t>(position)]);
    NodePeer& peer = known.emplace();
    peer.pid = words.next();
    peer.signals = words.shared_place();
    for (std::size_t m = 0; m < motions_; ++m) {
        PerSide<PeerArray>& arrays = peer.arrays.emplace_back();
        for (const Side side : both_sides) arrays[side] = read_array(words);
    }
    return peer;
}

std::byte* NodeMemory::map(const memory::SharedPlace& place) {
    auto segment = group_.segments().open(place.name);
    std::byte* address = segment->data() + place.offset_bytes;
    if (std::ranges::find(mapped_, segment) == mapped_.end()) mapped_.push_back(std::move(segment));
    return address;
}

std::byte* NodeMemory::base(std::int64_t rank, std::size_t motion, Side side) {
    const auto& place = peer(rank).arrays[motion][side].place;
    if (!place)
        throw make_error(ErrorCode::no_memory, "the ", side_name(side), " array of process ", rank,
                         " is not in shared memory");
    return map(*place);
}

std::byte* NodeMemory::signals(std::int64_t rank) {
    const auto& place = peer(rank).signals;
    if (!place)
        throw make_error(ErrorCode::no_memory, "process ", rank,
                         " has no shared memory for signals");
    return map(*place);
}

}  // namespace datamover::transport

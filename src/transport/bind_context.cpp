// SPDX-License-Identifier: BSD-3-Clause
// The context that a transport binds in, and the memory of the node that it knows.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "transport.hpp"

namespace datamover::transport {

std::int64_t Pair::elems() const {
    std::int64_t elems = 0;
    for (const PairShare& share : shares) elems += share.part->size();
    return elems;
}

bool Pair::plain_copy() const {
    return std::ranges::all_of(shares,
                               [](const PairShare& share) { return share.facts.plain_copy; });
}

ElementUpdate BoundMotion::packing_update() const {
    ElementUpdate packing;
    if (wire().type == array.source->type) return packing;
    packing.source_type = array.source->type;
    packing.destination_type = wire().type;
    return packing;
}

ElementUpdate BoundMotion::unpacking_update() const {
    ElementUpdate unpacking = update;
    if (!update.is_plain_copy()) unpacking.source_type = wire().type;
    return unpacking;
}

SignalLine& BindContext::own_signal_line(std::int64_t peer) const {
    const std::size_t first = kind * group->node().ranks.size();
    return signal_line(signals->data,
                       first + static_cast<std::size_t>(group->node().position(peer)));
}

SignalLine& BindContext::peer_signal_line(std::int64_t peer) const {
    const std::size_t first = kind * group->node().ranks.size();
    return signal_line(node->signals(peer),
                       first + static_cast<std::size_t>(group->node().my_position));
}

ArrayMotion BindContext::own_motion(const PairShare& share) const {
    const BoundMotion& motion = motions[share.motion];
    ArrayMotion made;
    made.part = share.part;
    made.update = motion.update;
    made.order = motion.order;
    for (const Side side : both_sides) {
        const ArrayPart& part = *motion.array[side];
        made.side[side] = {&motion.plan->layout(side), &part.memory, part.elem_bytes,
                           group->rank()};
        made.base[side] = part.base;
    }
    return made;
}

std::int64_t BindContext::message_bytes(const Pair& pair) const {
    std::int64_t bytes = 0;
    for (const PairShare& share : pair.shares)
        bytes = geometry::bounded_add(
            bytes, geometry::bounded_multiply(share.part->size(),
                                              motions[share.motion].wire().elem_bytes));
    return bytes;
}

PairProgram BindContext::message_program(const Pair& pair, const ChunkRules& rules) const {
    const Side message = pair.sends() ? Side::destination : Side::source;
    std::vector<ArrayMotion> made;
    for (const PairShare& share : pair.shares) {
        const BoundMotion& motion = motions[share.motion];
        made.push_back(own_motion(share));
        made.back().update = pair.sends() ? motion.packing_update() : motion.unpacking_update();
        made.back().side[message] = {nullptr, nullptr, motion.wire().elem_bytes, group->rank()};
        made.back().base[message] = nullptr;
    }
    return PairProgram::for_messages(made, rules);
}

std::vector<ArrayMotion> BindContext::motions_to_peer(const Pair& pair, Reach reach) const {
    std::vector<ArrayMotion> made;
    for (const PairShare& share : pair.shares) {
        made.push_back(own_motion(share));
        if (pair.peer == group->rank()) continue;
        const Side far = pair.sends() ? Side::destination : Side::source;
        const PeerArray& array = node->peer(pair.peer).arrays[share.motion][far];
        made.back().side[far].memory = &array.memory;
        made.back().side[far].rank = pair.peer;
        made.back().base[far] =
            reach == Reach::mapped ? node->base(pair.peer, share.motion, far) : array.address;
    }
    return made;
}

// Arrays of other processes of the node, as offered by them and mapped here.

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

std::vector<std::int64_t> offer_to_node(std::span<const BoundMotion> motions,
                                        const memory::Allocation* signals, bool describe_private) {
    Words words{getpid()};
    put_offer(words, signals);
    for (const BoundMotion& motion : motions)
        for (const Side side : both_sides) put_array(words, *motion.array[side], describe_private);
    return words;
}

NodeMemory::NodeMemory(const mpi::ProcessGroup& group,
                       std::vector<std::vector<std::int64_t>> offers, std::size_t motions)
    : group_(group), offers_(std::move(offers)), motions_(motions), peers_(offers_.size()) {}

const NodePeer& NodeMemory::peer(std::int64_t rank) {
    const int position = group_.node().position(rank);
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

std::byte* NodeMemory::map(std::int64_t rank, const std::optional<memory::SharedPlace>& place,
                           const char* what) {
    if (!place)
        throw make_error(ErrorCode::no_memory, "process ", rank, " has no shared memory for ",
                         what);
    auto segment = memory::SegmentMap::of_process().open(place->name);
    std::byte* address = segment->data() + place->offset_bytes;
    if (std::ranges::find(mapped_, segment) == mapped_.end()) mapped_.push_back(std::move(segment));
    return address;
}

std::byte* NodeMemory::base(std::int64_t rank, std::size_t motion, Side side) {
    return map(rank, peer(rank).arrays[motion][side].place,
               side == Side::source ? "its source array" : "its destination array");
}

std::byte* NodeMemory::signals(std::int64_t rank) {
    return map(rank, peer(rank).signals, "signals");
}

}  // namespace datamover::transport

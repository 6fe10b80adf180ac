// SPDX-License-Identifier: BSD-3-Clause
// The context that a transport binds in.
#include <algorithm>

#include "geometry/checked.hpp"
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

WireElement BoundMotion::wire() const {
    const ArrayPart& from = *array.source;
    const ArrayPart& to = *array.destination;
    return from.elem_bytes <= to.elem_bytes ? WireElement{from.type, from.elem_bytes}
                                            : WireElement{to.type, to.elem_bytes};
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
    const std::size_t first = kind * group->node_ranks().size();
    return signal_line(signals->data, first + static_cast<std::size_t>(group->node_position(peer)));
}

SignalLine& BindContext::peer_signal_line(std::int64_t peer) const {
    const std::size_t first = kind * group->node_ranks().size();
    return signal_line(node->signals(peer),
                       first + static_cast<std::size_t>(group->my_node_position()));
}

const BindingLine& BindContext::peer_binding_line(std::int64_t peer) const {
    return binding_line(node->signals(peer));
}

/// One side of a motion in this process's memory.
plan::RelationSide BindContext::own_side(const BoundMotion& motion, Side side) const {
    const ArrayPart& part = *motion.array[side];
    return {&motion.plan->layout(side), &part.memory, part.elem_bytes, group->rank()};
}

ArrayMotion BindContext::own_motion(const PairShare& share) const {
    const BoundMotion& motion = motions[share.motion];
    ArrayMotion made;
    made.part = share.part;
    made.update = motion.update;
    made.order = motion.order;
    for (const Side side : both_sides) {
        made.side[side] = own_side(motion, side);
        made.base[side] = motion.array[side]->base;
    }
    return made;
}

std::int64_t BindContext::message_bytes(const Pair& pair) const {
    std::int64_t bytes = 0;
    for (const PairShare& share : pair.shares)
        bytes = geometry::bounded_add(
            bytes,
            geometry::bounded_multiply(share.part->size(), motions[share.motion].wire().bytes));
    return bytes;
}

PairProgram BindContext::message_program(const Pair& pair, const ChunkRules& rules) const {
    const Side message = pair.sends() ? Side::destination : Side::source;
    std::vector<ArrayMotion> made;
    for (const PairShare& share : pair.shares) {
        const BoundMotion& motion = motions[share.motion];
        made.push_back(own_motion(share));
        made.back().update = pair.sends() ? motion.packing_update() : motion.unpacking_update();
        made.back().side[message] = {nullptr, nullptr, motion.wire().bytes, group->rank()};
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

PairProgram BindContext::copy_program(const Pair& pair) const {
    return PairProgram::for_copies(motions_to_peer(pair, Reach::mapped));
}

}  // namespace datamover::transport

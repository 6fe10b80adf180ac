// SPDX-License-Identifier: BSD-3-Clause
// How do two processes of a node agree that one of them accesses the memory of the other?
//
// One side of a pair copies. The other raises `go` when its array may be accessed; the copying side
// raises `done` when it has finished. No message, no barrier.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "signal_lines.hpp"
#include "transport.hpp"

namespace datamover::transport {

/// A transport in which one side of each pair does all the work. What a copy is, the derived class
/// knows.
class OneSided : public Transport {
public:
    void announce() override {
        ++round_;
        for (const Offer& offer : offers_) offer.go->store(round_, std::memory_order_release);
    }

    void start() override {
        for (Turn& turn : turns_) turn.pending = true;
        pending_ = turns_.size();
        progress();
    }

    bool progress() override {
        if (pending_ > 0) {
            for (std::size_t i = 0; i < turns_.size(); ++i) {
                Turn& turn = turns_[i];
                if (!turn.pending || turn.go->load(std::memory_order_acquire) < round_) continue;
                copy(i);
                turn.done->store(round_, std::memory_order_release);
                turn.pending = false;
                --pending_;
            }
            if (pending_ > 0) return false;
        }
        for (const Offer& offer : offers_)
            if (offer.done->load(std::memory_order_acquire) < round_) return false;
        return true;
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers;
        for (const Turn& turn : turns_)
            if (turn.pending) peers.push_back(turn.peer);
        for (const Offer& offer : offers_)
            if (offer.done->load(std::memory_order_acquire) < round_) peers.push_back(offer.peer);
        return peers;
    }

    void report(std::vector<MoverLeg>& lines) const override {
        for (std::size_t i = 0; i < turns_.size(); ++i) lines.push_back(copy_line(i));
        for (const Offer& o : offers_)
            lines.push_back(
                {o.peer, o.sends, name_, "", o.elems, o.bytes, "", 0, "copied by the peer"});
    }

protected:
    OneSided(const BindContext& context, const char* name)
        : name_(name),
          keep_{context.source->allocation, context.destination->allocation, context.control} {
        for (const NodePeer& peer : context.node) control_segments_.push_back(peer.control_segment);
    }

    /// Carries out copy number i, whose peer has begun.
    virtual void copy(std::size_t i) const = 0;
    virtual MoverLeg copy_line(std::size_t i) const = 0;

    /// Adds a pair. True: this process copies (the next number), else the peer does.
    bool add_pair(const BindContext& context, const Leg& leg, bool sends, bool receiver_copies) {
        const int me = context.group->my_node_position();
        const int position = context.group->node_position(leg.peer);
        SignalLine& mine = signal_line(context.control->data, position);
        SignalLine& theirs = signal_line(peer_of(context, leg).control, me);
        const Direction here = sends ? outgoing : incoming;
        const Direction there = sends ? incoming : outgoing;
        if (receiver_copies != sends) {
            turns_.push_back({leg.peer, &mine.go[here], &theirs.done[there]});
            return true;
        }
        const std::int64_t elems = leg.part->size();
        offers_.push_back({leg.peer, sends, elems, elems * context.wire().bytes, &theirs.go[there],
                           &mine.done[here]});
        return false;
    }

    static const NodePeer& peer_of(const BindContext& context, const Leg& leg) {
        return context.node[static_cast<std::size_t>(context.group->node_position(leg.peer))];
    }

    /// The two memories of a pair in which this process copies.
    static std::pair<plan::RelationSide, plan::RelationSide> sides(const BindContext& context,
                                                                   const Leg& leg, bool sends) {
        plan::RelationSide from = context.source_side(), to = context.destination_side();
        const NodePeer& peer = peer_of(context, leg);
        if (sends)
            to = {to.layout, &peer.destination.memory, to.elem_bytes, leg.peer};
        else
            from = {from.layout, &peer.source.memory, from.elem_bytes, leg.peer};
        return {from, to};
    }

private:
    /// A pair in which this process copies.
    struct Turn {
        std::int64_t peer = 0;
        std::atomic<std::uint64_t>* go = nullptr;    ///< own line: the peer has begun
        std::atomic<std::uint64_t>* done = nullptr;  ///< the peer's line: told when copied
        bool pending = false;
    };
    /// A pair in which the other process copies.
    struct Offer {
        std::int64_t peer = 0;
        bool sends = false;
        std::int64_t elems = 0, bytes = 0;
        std::atomic<std::uint64_t>* go = nullptr;    ///< the peer's line: told that we have begun
        std::atomic<std::uint64_t>* done = nullptr;  ///< own line: the peer has copied
    };

    const char* name_;
    std::vector<Turn> turns_;
    std::vector<Offer> offers_;
    std::vector<memory::AllocationPtr> keep_;
    std::vector<std::shared_ptr<memory::SharedSegment>> control_segments_;
    std::uint64_t round_ = 0;
    std::size_t pending_ = 0;
};

}  // namespace datamover::transport

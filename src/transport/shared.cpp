// SPDX-License-Identifier: BSD-3-Clause
// How does data move between processes of a node? One copy straight between the two arrays.
//
// One side of a pair copies: the receiver out of the sender's array where that is shared, else the
// sender into the receiver's. The other side raises `go` when its array may be accessed; the
// copying side raises `done` when it has finished. No message, no barrier.
#include <utility>

#include "signal_lines.hpp"
#include "transport.hpp"

namespace datamover::transport {
namespace {

bool receiver_copies(const PairFacts& facts, const BindContext& context) {
    if (!facts.source_shared) return false;
    return !facts.destination_shared || !facts.plain_copy || context.receivers_copy;
}

/// A pair in which this process copies.
struct Copy {
    std::int64_t peer = 0;
    bool sends = false;
    std::atomic<std::uint64_t>* go = nullptr;    ///< own line: the peer has begun
    std::atomic<std::uint64_t>* done = nullptr;  ///< the peer's line: told when copied
    const std::byte* source = nullptr;
    std::byte* destination = nullptr;
    AddressRelation relation;
    CopyKernel kernel;
    std::shared_ptr<memory::SharedSegment> mapping;
    bool pending = false;
};

/// A pair in which the other process copies.
struct Offer {
    std::int64_t peer = 0;
    std::atomic<std::uint64_t>* go = nullptr;    ///< the peer's line: told that we have begun
    std::atomic<std::uint64_t>* done = nullptr;  ///< own line: the peer has copied
};

class SharedTransport final : public Transport {
public:
    SharedTransport(const BindContext& context, const std::vector<Leg>& sends,
                    const std::vector<Leg>& receives) {
        for (const Leg& leg : sends) add(context, leg, true);
        for (const Leg& leg : receives) add(context, leg, false);
        keep_ = {context.source->allocation, context.destination->allocation, context.control};
        for (const NodePeer& peer : context.node) control_segments_.push_back(peer.control_segment);
    }

    void announce() override {
        ++round_;
        for (const Offer& offer : offers_) offer.go->store(round_, std::memory_order_release);
    }

    void start() override {
        for (Copy& copy : copies_) copy.pending = true;
        pending_ = copies_.size();
        progress();
    }

    bool progress() override {
        if (pending_ > 0) {
            for (Copy& copy : copies_) {
                if (!copy.pending || copy.go->load(std::memory_order_acquire) < round_) continue;
                copy.kernel(copy.source, copy.destination);
                copy.done->store(round_, std::memory_order_release);
                copy.pending = false;
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
        for (const Copy& copy : copies_)
            if (copy.pending) peers.push_back(copy.peer);
        for (const Offer& offer : offers_)
            if (offer.done->load(std::memory_order_acquire) < round_) peers.push_back(offer.peer);
        return peers;
    }

    void report(std::vector<MoverLeg>& lines) const override {
        for (const Copy& c : copies_)
            lines.push_back(leg_line(c.peer, c.sends, "shared", c.relation, c.kernel));
        for (const auto& [peer, part] : offered_)
            lines.push_back({peer, part.sends, "shared", "", part.elems, part.bytes, "", 0,
                             "copied by the peer"});
    }

private:
    void add(const BindContext& context, const Leg& leg, bool sends) {
        const int me = context.group->my_node_position();
        const int position = context.group->node_position(leg.peer);
        const NodePeer& peer = context.node[static_cast<std::size_t>(position)];
        SignalLine& mine = signal_line(context.control->data, position);
        SignalLine& theirs = signal_line(peer.control, me);
        const Direction here = sends ? outgoing : incoming;
        const Direction there = sends ? incoming : outgoing;
        if (receiver_copies(leg.facts, context) == sends) {
            offers_.push_back({leg.peer, &theirs.go[there], &mine.done[here]});
            const std::int64_t elems = leg.part->size();
            offered_.push_back({leg.peer, {sends, elems, elems * context.wire().bytes}});
            return;
        }
        Copy copy;
        copy.peer = leg.peer;
        copy.sends = sends;
        copy.go = &mine.go[here];
        copy.done = &theirs.done[there];
        plan::RelationSide from = context.source_side(), to = context.destination_side();
        if (sends) {
            to = {to.layout, &peer.destination.memory, to.elem_bytes, leg.peer};
            copy.mapping = peer.destination.segment;
            copy.source = context.source->base;
            copy.destination = peer.destination.base;
        } else {
            from = {from.layout, &peer.source.memory, from.elem_bytes, leg.peer};
            copy.mapping = peer.source.segment;
            copy.source = peer.source.base;
            copy.destination = context.destination->base;
        }
        copy.relation = plan::compile(*leg.part, from, to, context.order);
        copy.kernel = copy.relation.kernel(context.update);
        copies_.push_back(std::move(copy));
    }

    struct OfferedPart {
        bool sends;
        std::int64_t elems, bytes;
    };

    std::vector<Copy> copies_;
    std::vector<Offer> offers_;
    std::vector<std::pair<std::int64_t, OfferedPart>> offered_;
    std::vector<memory::AllocationPtr> keep_;
    std::vector<std::shared_ptr<memory::SharedSegment>> control_segments_;
    std::uint64_t round_ = 0;
    std::size_t pending_ = 0;
};

}  // namespace

extern const TransportKind shared_kind;
const TransportKind shared_kind{
    "shared",
    [](const PairFacts& facts) {
        return facts.same_node && !facts.same_process && facts.in_one_copy();
    },
    [](const PairFacts&) { return true; },
    [](const BindContext& context, std::vector<Leg> sends,
       std::vector<Leg> receives) -> std::unique_ptr<Transport> {
        return std::make_unique<SharedTransport>(context, sends, receives);
    },
};

}  // namespace datamover::transport

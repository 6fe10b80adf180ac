// SPDX-License-Identifier: BSD-3-Clause
// How does data move between processes of a node? One copy straight between the two arrays: by the
// receiver out of the sender's array where that is shared, else by the sender into the receiver's.
#include <utility>

#include "one_sided.hpp"

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
    const std::byte* source = nullptr;
    std::byte* destination = nullptr;
    AddressRelation relation;
    CopyKernel kernel;
    std::shared_ptr<memory::SharedSegment> mapping;
};

class SharedTransport final : public OneSided {
public:
    SharedTransport(const BindContext& context, const std::vector<Leg>& sends,
                    const std::vector<Leg>& receives)
        : OneSided(context, "shared") {
        for (const Leg& leg : sends) add(context, leg, true);
        for (const Leg& leg : receives) add(context, leg, false);
    }

private:
    void copy(std::size_t i) const override {
        copies_[i].kernel(copies_[i].source, copies_[i].destination);
    }

    MoverLeg copy_line(std::size_t i) const override {
        const Copy& c = copies_[i];
        return leg_line(c.peer, c.sends, "shared", c.relation, c.kernel);
    }

    void add(const BindContext& context, const Leg& leg, bool sends) {
        if (!add_pair(context, leg, sends, receiver_copies(leg.facts, context))) return;
        const NodePeer& peer = peer_of(context, leg);
        const PeerArray& theirs = sends ? peer.destination : peer.source;
        const auto [from, to] = sides(context, leg, sends);
        Copy copy;
        copy.peer = leg.peer;
        copy.sends = sends;
        copy.mapping = theirs.segment;
        copy.source = sends ? context.source->base : theirs.base;
        copy.destination = sends ? theirs.base : context.destination->base;
        copy.relation = plan::compile(*leg.part, from, to, context.order);
        copy.kernel = copy.relation.kernel(context.update);
        copies_.push_back(std::move(copy));
    }

    std::vector<Copy> copies_;
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

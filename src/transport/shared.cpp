// SPDX-License-Identifier: BSD-3-Clause
// The transport "shared": one copy between two arrays in shared memory of a node. One copy
// straight between the two arrays: by the receiver out of the sender's array where that is shared,
// else by the sender into the receiver's.
#include "one_sided.hpp"

namespace datamover::transport {
namespace {

class SharedTransport final : public OneSided {
public:
    SharedTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : OneSided("shared") {
        for (const Pair& pair : pairs)
            for (const bool by_receiver : {true, false}) add(context, pair, by_receiver);
    }

private:
    struct Copy {
        std::int64_t peer = 0;
        bool sends = false;
        PairProgram program;
    };

    static bool receiver_copies(const PairFacts& facts, const BindContext& context) {
        if (!facts.shared.source) return false;
        if (!facts.shared.destination || !facts.plain_copy) return true;
        return context.options.receivers_copy.value_or(context.receivers_copy);
    }

    void copy(std::size_t i) const override { copies_[i].program.copy(); }

    MoverPair copy_line(std::size_t i) const override {
        return pair_line(copies_[i].peer, copies_[i].sends, "shared", copies_[i].program);
    }

    /// Adds those arrays of a pair that the receiver copies, or those that the sender copies.
    void add(const BindContext& context, const Pair& pair, bool by_receiver) {
        Pair some{pair.peer, pair.direction, {}};
        for (const PairShare& share : pair.shares)
            if (receiver_copies(share.facts, context) == by_receiver) some.shares.push_back(share);
        if (!some.shares.empty() && add_pair(context, some, by_receiver))
            copies_.push_back({pair.peer, pair.sends(), context.copy_program(some)});
    }

    std::vector<Copy> copies_;
};

}  // namespace

extern const TransportKind shared_kind;
const TransportKind shared_kind{
    "shared",
    MessageMemory::none,
    AcceptedOption::who_copies,
    false,
    [](const PairFacts& facts) {
        return facts.same_node && !facts.same_process && facts.in_one_copy();
    },
    [](const PairFacts& facts) { return !facts.small_ghost_exchange || !facts.slots; },
    [](const PairFacts& facts) {
        return std::string(facts.shared.source ? "the source array is in shared memory"
                                               : "the destination array is in shared memory") +
               facts.rewriting.text();
    },
    [](const BindContext& context, const std::vector<Pair>& pairs) -> std::unique_ptr<Transport> {
        return std::make_unique<SharedTransport>(context, pairs);
    },
    false,
    [](const PairFacts& facts) {
        return why_not_on_node(facts, facts.shared.destination
                                          ? "the destination array alone is in shared memory, and "
                                            "elements are combined or converted"
                                          : "neither array is in memory that both can reach");
    },
};

}  // namespace datamover::transport

// SPDX-License-Identifier: BSD-3-Clause
// How does data move by one MPI_Ialltoallw of all processes per chunk?
#include <string>

#include "turn_transport.hpp"

namespace datamover::transport {
namespace {

class CollectiveTransport final : public TurnTransport {
public:
    CollectiveTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : TurnTransport(context, pairs, "collective", "MPI_Ialltoallw") {
        const auto ranks = static_cast<std::size_t>(context.group->size());
        exchange().sent.resize(ranks);
        exchange().received.resize(ranks);
    }

private:
    int begin_operation(const Exchange& e, MPI_Request* request) const override {
        return MPI_Ialltoallw(MPI_BOTTOM, e.sent.counts.data(), e.sent.zeros.data(),
                              e.sent.types.data(), MPI_BOTTOM, e.received.counts.data(),
                              e.received.zeros.data(), e.received.types.data(),
                              group().turns_comm(), request);
    }
};

}  // namespace

extern const TransportKind collective_kind;
const TransportKind collective_kind{
    "collective",
    MessageMemory::buffers,
    true,
    [](const PairFacts& facts) { return !facts.same_process; },
    [](const PairFacts&) { return false; },
    [](const PairFacts&) { return std::string("all processes take part"); },
    [](const BindContext& context, const std::vector<Pair>& pairs) -> std::unique_ptr<Transport> {
        return std::make_unique<CollectiveTransport>(context, pairs);
    },
    true,
};

}  // namespace datamover::transport

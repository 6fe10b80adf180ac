// SPDX-License-Identifier: BSD-3-Clause
// The transport "neighbour": one MPI_Ineighbor_alltoallw per chunk.
//
// Each peer occurs once, whatever goes to it: several MPIs mix messages up where a neighbour occurs
// twice, as in a periodic grid of one or two processes.
#include <memory>
#include <string>

#include "mpi/checked_call.hpp"
#include "mpi/neighbour_graph.hpp"
#include "turn_transport.hpp"

namespace datamover::transport {
namespace {

class NeighbourTransport final : public TurnTransport {
public:
    NeighbourTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : TurnTransport(context, pairs, "neighbour", "MPI_Ineighbor_alltoallw", takes_addresses) {
        for (ExchangedPair& pair : exchange().pairs) {
            auto& side = pair.sends ? neighbours_.destinations : neighbours_.sources;
            pair.place = side.size();
            side.push_back(mpi::to_int(pair.peer, "rank"));
        }
        exchange().sent.resize(neighbours_.destinations.size());
        exchange().received.resize(neighbours_.sources.size());
    }

    void all_have_bound(std::int64_t operations) override {
        TurnTransport::all_have_bound(operations);
        if (operations > 0) graph_ = mpi::neighbour_graph(group(), neighbours_);
    }

private:
    static constexpr bool takes_addresses = true;

    int begin_operation(const Exchange& e, std::size_t, MPI_Request* request) override {
        return MPI_Ineighbor_alltoallw(MPI_BOTTOM, e.sent.counts.data(),
                                       e.sent.displacements.data(), e.sent.types.data(), MPI_BOTTOM,
                                       e.received.counts.data(), e.received.displacements.data(),
                                       e.received.types.data(), graph_->comm(), request);
    }

    mpi::Neighbours neighbours_;
    std::shared_ptr<const mpi::NeighbourGraph> graph_;
};

}  // namespace

extern const TransportKind neighbour_kind;
const TransportKind neighbour_kind{
    "neighbour",
    MessageMemory::buffers,
    AcceptedOption::nothing,
    true,
    [](const PairFacts& facts) { return !facts.same_process; },
    [](const PairFacts&) { return false; },
    [](const PairFacts&) { return std::string("one operation of all neighbours"); },
    [](const BindContext& context, const std::vector<Pair>& pairs) -> std::unique_ptr<Transport> {
        return std::make_unique<NeighbourTransport>(context, pairs);
    },
    true,
};

}  // namespace datamover::transport

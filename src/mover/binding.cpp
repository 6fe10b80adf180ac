// SPDX-License-Identifier: BSD-3-Clause
// How does a mover come to know its peers, and which transport carries each?
#include "binding.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "node_exchange.hpp"
#include "transport/signal_lines.hpp"

namespace datamover {
namespace {

using transport::BindContext;
using transport::Leg;
using transport::PairFacts;

std::string side_name(const char* side, std::int64_t rank) {
    return std::string(side) + " array on process " + std::to_string(rank);
}

void check_part(const ArrayPart& part, const Layout& layout, const char* side, std::int64_t rank) {
    if (part.elem_bytes < 1)
        throw Error(ErrorCode::wrong_type, side_name(side, rank) + " has elements of " +
                                               std::to_string(part.elem_bytes) + " bytes");
    if (part.layout.valid() && !(part.layout == layout))
        throw Error(ErrorCode::mismatch, side_name(side, rank) + " is laid out as " +
                                             part.layout.describe() + ", the plan's " + side + " as " +
                                             layout.describe());
    for (const std::int64_t block : layout.blocks_of(rank)) {
        const BlockMemory* memory = part.memory.find(block);
        if (!memory)
            throw Error(ErrorCode::mismatch, side_name(side, rank) + " lacks block " +
                                                 std::to_string(block) + " of its layout");
        const Region interior = Region::from_shape(layout.block_extents(block));
        if (!memory->valid.contains(interior))
            throw Error(ErrorCode::mismatch, side_name(side, rank) + ": block " + std::to_string(block) +
                                                 " has room for local indices " + memory->valid.to_string() +
                                                 ", its layout needs " + interior.to_string());
    }
    if (!part.base && part.memory.end_bytes > part.memory.begin_bytes)
        throw Error(ErrorCode::invalid_state, side_name(side, rank) + " has no memory (was it freed?)");
}

void check_arguments(const mpi::ProcessGroup& group, const MotionPlan& plan, const ArrayPart& source,
                     const ArrayPart& destination, const MoverOptions& options) {
    const int rank = group.rank();
    if (!plan.source().valid()) throw Error(ErrorCode::invalid_argument, "the plan is empty");
    if (plan.nprocs() != group.size())
        throw Error(ErrorCode::mismatch, "the plan is for " + std::to_string(plan.nprocs()) +
                                             " processes, the communicator has " +
                                             std::to_string(group.size()));
    check_part(source, plan.source(), "source", rank);
    check_part(destination, plan.destination(), "destination", rank);
    if (!destination.writable)
        throw Error(ErrorCode::invalid_argument, side_name("destination", rank) + " is read-only");
    if (source.elem_bytes != destination.elem_bytes || source.type != destination.type)
        throw Error(ErrorCode::wrong_type,
                    "source elements are " + std::string(scalar_name(source.type)) + " of " +
                        std::to_string(source.elem_bytes) + " bytes, destination elements " +
                        scalar_name(destination.type) + " of " + std::to_string(destination.elem_bytes) +
                        " bytes; they must be the same");
    if (options.op != Op::replace && source.type == ScalarType::opaque)
        throw Error(ErrorCode::wrong_type, std::string("op \"") + op_name(options.op) +
                                               "\" needs elements of a number type");
}

ElementUpdate update_of(const ArrayPart& source, const MoverOptions& options) {
    ElementUpdate update;
    if (options.op == Op::replace) return update;
    update.op = options.op;
    update.source_type = update.destination_type = source.type;
    return update;
}

bool prefers_row_major(const ArrayPart& part) {
    for (const BlockMemory& b : part.memory.blocks) {
        const int last = b.strides_bytes.dims() - 1;
        if (last > 0 && std::abs(b.strides_bytes[last]) <= std::abs(b.strides_bytes[0])) return true;
    }
    return false;
}

std::int64_t bytes_to_others(const std::vector<PeerPart>& parts, std::int64_t me, std::int64_t elem_bytes) {
    std::int64_t elems = 0;
    for (const PeerPart& p : parts)
        if (p.rank != me) elems += p.part.size();
    return elems * elem_bytes;
}

MoverCounters round_counters(const std::vector<PeerPart>& sends, const std::vector<PeerPart>& receives,
                             std::int64_t me, std::int64_t elem_bytes) {
    MoverCounters c;
    const auto others = [&](const std::vector<PeerPart>& parts) {
        return std::count_if(parts.begin(), parts.end(), [&](const PeerPart& p) { return p.rank != me; });
    };
    c.messages_sent = others(sends);
    c.messages_received = others(receives);
    c.bytes_sent = bytes_to_others(sends, me, elem_bytes);
    c.bytes_received = bytes_to_others(receives, me, elem_bytes);
    for (const PeerPart& p : receives)
        if (p.rank == me) c.bytes_kept += p.part.size() * elem_bytes;
    return c;
}

/// The facts of the direction from one rank to another, one of which is this process.
class FactFinder {
public:
    FactFinder(const mpi::ProcessGroup& group, const NodeOffers& offers, bool usable, bool plain_copy)
        : group_(group), offers_(offers), usable_(usable), plain_copy_(plain_copy) {}

    PairFacts operator()(std::int64_t from, std::int64_t to) const {
        PairFacts facts{from, to, from == to, false, false, false, plain_copy_};
        const int source = group_.node_position(from), destination = group_.node_position(to);
        if (source < 0 || destination < 0) return facts;
        facts.same_node = true;
        if (!usable_) return facts;
        // A side can be reached only if both processes have signal lines, which offers imply.
        facts.source_shared = offers_.source_shared[static_cast<std::size_t>(source)];
        facts.destination_shared = offers_.destination_shared[static_cast<std::size_t>(destination)];
        return facts;
    }

private:
    const mpi::ProcessGroup& group_;
    const NodeOffers& offers_;
    bool usable_, plain_copy_;
};

/// Legs sorted by the transport that carries them.
struct LegsOfKind {
    std::vector<Leg> sends, receives;
};

memory::AllocationPtr signal_memory(const mpi::ProcessGroup& group) {
    const int node_size = static_cast<int>(group.node_ranks().size());
    if (node_size == 1) return nullptr;
    try {
        auto lines = group.pool().allocate_shared(transport::signal_bytes(node_size));
        transport::clear_signal_lines(lines->data, node_size);
        return lines;
    } catch (const Error&) {
        return nullptr;
    }
}

}  // namespace

BoundTransports bind_transports(const mpi::ProcessGroupPtr& group, const MotionPlan& plan,
                                const ArrayPart& source, const ArrayPart& destination,
                                const MoverOptions& options) {
    const std::int64_t me = group->rank();
    std::vector<PeerPart> outgoing, incoming;
    mpi::collectively(*group, [&] {
        check_arguments(*group, plan, source, destination, options);
        outgoing = plan.outgoing(me);
        incoming = plan.incoming(me);
    });

    BindContext context;
    context.group = group;
    context.plan = &plan;
    context.source = &source;
    context.destination = &destination;
    context.update = update_of(source, options);
    context.tag = group->next_tag();
    context.control = signal_memory(*group);
    NodeOffers offers = exchange_on_node(*group, source, destination, context.control);

    BoundTransports bound;
    bound.per_round = round_counters(outgoing, incoming, me, source.elem_bytes);
    const bool lines_missing = group->node_ranks().size() > 1 && !context.control;
    const auto votes = group->maximum({lines_missing || !offers.mapped, prefers_row_major(destination),
                                       bound.per_round.bytes_sent, bound.per_round.bytes_received});
    context.order = votes[1] ? plan::MessageOrder::row_major : plan::MessageOrder::column_major;
    context.receivers_copy = votes[3] <= votes[2];
    context.node = std::move(offers.peers);

    mpi::collectively(*group, [&] {
        const FactFinder facts(*group, offers, votes[0] == 0, context.update.is_plain_copy());
        const auto& kinds = transport::transport_kinds();
        std::vector<LegsOfKind> legs(kinds.size());
        const auto legs_for = [&](const PairFacts& f) -> LegsOfKind& {
            const auto& kind = transport::choose_transport(f, options.transport);
            return legs[static_cast<std::size_t>(&kind - kinds.data())];
        };
        for (PeerPart& p : outgoing) {
            const PairFacts f = facts(me, p.rank);
            legs_for(f).sends.push_back({p.rank, std::move(p.part), f});
        }
        for (PeerPart& p : incoming) {
            const PairFacts f = facts(p.rank, me);
            legs_for(f).receives.push_back({p.rank, std::move(p.part), f});
        }
        // Far peers are served first, the own copy last: it needs nobody.
        for (std::size_t i = kinds.size(); i-- > 0;)
            if (!legs[i].sends.empty() || !legs[i].receives.empty())
                bound.transports.push_back(
                    kinds[i].bind(context, std::move(legs[i].sends), std::move(legs[i].receives)));
    });
    return bound;
}

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// How does a mover come to know its peers, and which transport carries each?
#include "binding.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "check.hpp"
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
                                             part.layout.describe() + ", the plan's " + side +
                                             " as " + layout.describe());
    for (const std::int64_t block : layout.blocks_of(rank)) {
        const BlockMemory* memory = part.memory.find(block);
        if (!memory)
            throw Error(ErrorCode::mismatch, side_name(side, rank) + " lacks block " +
                                                 std::to_string(block) + " of its layout");
        const Region interior = Region::from_shape(layout.block_extents(block));
        if (!memory->valid.contains(interior))
            throw Error(ErrorCode::mismatch,
                        side_name(side, rank) + ": block " + std::to_string(block) +
                            " has room for local indices " + memory->valid.to_string() +
                            ", its layout needs " + interior.to_string());
    }
    if (!part.base && part.memory.end_bytes > part.memory.begin_bytes)
        throw Error(ErrorCode::invalid_state,
                    side_name(side, rank) + " has no memory (was it freed?)");
}

std::string elements_of(const ArrayPart& part) {
    return std::string(scalar_name(part.type)) + " elements of " + std::to_string(part.elem_bytes) +
           " bytes";
}

/// Bytes can be moved between equal elements of any type; all else is arithmetic on numbers.
void check_types(const ArrayPart& source, const ArrayPart& destination,
                 const MoverOptions& options) {
    const bool numbers =
        source.type != ScalarType::opaque && destination.type != ScalarType::opaque;
    const bool equal =
        source.type == destination.type && source.elem_bytes == destination.elem_bytes;
    if (!numbers && !equal)
        throw Error(ErrorCode::wrong_type, "the source has " + elements_of(source) +
                                               ", the destination " + elements_of(destination) +
                                               ": only number types are converted");
    const bool arithmetic = options.op != Op::replace || options.conjugate || options.alpha != 1.0;
    if (arithmetic && !numbers)
        throw Error(
            ErrorCode::wrong_type,
            "op, alpha and conjugate need elements of a number type, not " + elements_of(source));
}

void check_arguments(const mpi::ProcessGroup& group, const MotionPlan& plan,
                     const ArrayPart& source, const ArrayPart& destination) {
    const int rank = group.rank();
    check_part(source, plan.source(), "source", rank);
    check_part(destination, plan.destination(), "destination", rank);
    if (!destination.writable)
        throw Error(ErrorCode::invalid_argument, side_name("destination", rank) + " is read-only");
}

/// Gives processes that hold no elements the element type of those that do, so that all agree on
/// messages. Throws on all processes when two hold elements of different types. Collective.
void agree_on_types(const mpi::ProcessGroup& group, ArrayPart& source, ArrayPart& destination) {
    constexpr std::int64_t nothing = std::numeric_limits<std::int64_t>::min();
    std::vector<std::int64_t> values;
    for (const ArrayPart* part : {&source, &destination}) {
        const bool holds = part->memory.end_bytes > part->memory.begin_bytes;
        for (const std::int64_t v : {part->elem_bytes, static_cast<std::int64_t>(part->type)}) {
            values.push_back(holds ? v : nothing);
            values.push_back(holds ? -v : nothing);
        }
    }
    const auto extremes = group.maximum(values);
    std::size_t i = 0;
    for (ArrayPart* part : {&source, &destination}) {
        const std::int64_t elem_bytes = extremes[i], type = extremes[i + 2];
        if (elem_bytes != nothing && (elem_bytes != -extremes[i + 1] || type != -extremes[i + 3]))
            throw Error(ErrorCode::wrong_type,
                        std::string(part == &source ? "source" : "destination") +
                            " arrays have elements of different types on different processes");
        if (elem_bytes != nothing) {
            part->elem_bytes = elem_bytes;
            part->type = static_cast<ScalarType>(type);
        }
        i += 4;
    }
}

ElementUpdate update_of(const ArrayPart& source, const ArrayPart& destination,
                        const MoverOptions& options) {
    const ElementUpdate update{options.op,        source.type,   destination.type,
                               options.conjugate, options.alpha, options.beta};
    return update.is_plain_copy() ? ElementUpdate{} : update;
}

bool prefers_row_major(const ArrayPart& part) {
    for (const BlockMemory& b : part.memory.blocks) {
        const int last = b.strides_bytes.dims() - 1;
        if (last > 0 && std::abs(b.strides_bytes[last]) <= std::abs(b.strides_bytes[0]))
            return true;
    }
    return false;
}

std::int64_t bytes_to_others(const std::vector<PeerPart>& parts, std::int64_t me,
                             std::int64_t elem_bytes) {
    std::int64_t elems = 0;
    for (const PeerPart& p : parts)
        if (p.rank != me) elems += p.part.size();
    return elems * elem_bytes;
}

MoverCounters round_counters(const std::vector<PeerPart>& sends,
                             const std::vector<PeerPart>& receives, std::int64_t me,
                             std::int64_t elem_bytes) {
    MoverCounters c;
    const auto others = [&](const std::vector<PeerPart>& parts) {
        return std::count_if(parts.begin(), parts.end(),
                             [&](const PeerPart& p) { return p.rank != me; });
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
    FactFinder(const mpi::ProcessGroup& group, const NodeOffers& offers, bool usable,
               bool plain_copy)
        : group_(group), offers_(offers), usable_(usable), plain_copy_(plain_copy) {}

    PairFacts operator()(std::int64_t from, std::int64_t to) const {
        PairFacts facts{from, to, from == to, false, false, false, plain_copy_};
        const int source = group_.node_position(from), destination = group_.node_position(to);
        if (source < 0 || destination < 0) return facts;
        facts.same_node = true;
        if (!usable_) return facts;
        // A side can be reached only if both processes have signal lines, which offers imply.
        facts.source_shared = offers_.source_shared[static_cast<std::size_t>(source)];
        facts.destination_shared =
            offers_.destination_shared[static_cast<std::size_t>(destination)];
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

bool replicated(const Layout& layout) {
    return layout.block_cyclic() && layout.block_cyclic()->replicas() > 1;
}

/// The lowest rank on the node of each rank. Collective.
std::vector<std::int64_t> nodes_of_all(const mpi::ProcessGroup& group) {
    std::vector<std::int64_t> nodes(static_cast<std::size_t>(group.size()), 0);
    nodes[static_cast<std::size_t>(group.rank())] = group.node_ranks().front();
    return group.maximum(std::move(nodes));
}

}  // namespace

ProcessPlan plan_for_process(const mpi::ProcessGroup& group, const MotionPlan& plan,
                             const MoverOptions& options) {
    ProcessPlan mine;
    mpi::collectively(group, [&] {
        if (!plan.source().valid()) throw Error(ErrorCode::invalid_argument, "the plan is empty");
        if (plan.nprocs() != group.size())
            throw Error(ErrorCode::mismatch, "the plan is for " + std::to_string(plan.nprocs()) +
                                                 " processes, the communicator has " +
                                                 std::to_string(group.size()));
    });
    const auto wishes = group.maximum({options.check, replicated(plan.source())});
    if (wishes[0]) check_same_plan(group, plan, options);
    const auto nodes = wishes[1] ? nodes_of_all(group) : std::vector<std::int64_t>{};
    mpi::collectively(group, [&] {
        const int me = group.rank();
        mine = {plan, plan.outgoing(me, nodes), plan.incoming(me, nodes), wishes[0] != 0};
    });
    return mine;
}

BoundTransports bind_transports(const mpi::ProcessGroupPtr& group, const ProcessPlan& mine,
                                ArrayPart source, ArrayPart destination,
                                const MoverOptions& options) {
    const std::int64_t me = group->rank();
    mpi::collectively(*group, [&] { check_arguments(*group, mine.plan, source, destination); });
    agree_on_types(*group, source, destination);
    check_types(source, destination, options);
    if (mine.check) check_bound(*group, mine, source, destination, options);

    BindContext context;
    context.group = group;
    context.plan = &mine.plan;
    context.source = &source;
    context.destination = &destination;
    context.update = update_of(source, destination, options);
    context.tag = group->next_tag();
    context.control = signal_memory(*group);
    NodeOffers offers = exchange_on_node(*group, source, destination, context.control);

    BoundTransports bound;
    bound.per_round = round_counters(mine.outgoing, mine.incoming, me, context.wire().bytes);
    const bool lines_missing = group->node_ranks().size() > 1 && !context.control;
    const auto votes =
        group->maximum({lines_missing || !offers.mapped, prefers_row_major(destination),
                        bound.per_round.bytes_sent, bound.per_round.bytes_received});
    context.order = votes[1] ? plan::MessageOrder::row_major : plan::MessageOrder::column_major;
    // The less loaded side copies. Between equals the sender: the cache lines around a face are
    // rewritten by their owner in every step, those of a ghost are only read (measured: a halo of
    // 16³ blocks takes a third of the time that it takes when receivers copy).
    context.receivers_copy = votes[3] < votes[2];
    context.node = std::move(offers.peers);

    mpi::collectively(*group, [&] {
        const FactFinder facts(*group, offers, votes[0] == 0, context.update.is_plain_copy());
        const auto& kinds = transport::transport_kinds();
        std::vector<LegsOfKind> legs(kinds.size());
        const auto legs_for = [&](const PairFacts& f) -> LegsOfKind& {
            const auto& kind = transport::choose_transport(f, options.transport);
            return legs[static_cast<std::size_t>(&kind - kinds.data())];
        };
        for (const PeerPart& p : mine.outgoing) {
            const PairFacts f = facts(me, p.rank);
            legs_for(f).sends.push_back({p.rank, &p.part, f});
        }
        for (const PeerPart& p : mine.incoming) {
            const PairFacts f = facts(p.rank, me);
            legs_for(f).receives.push_back({p.rank, &p.part, f});
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

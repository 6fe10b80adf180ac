// SPDX-License-Identifier: BSD-3-Clause
// How does a mover come to know its peers, and which transport carries each?
#include "binding.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "check.hpp"
#include "leg_choice.hpp"
#include "node_exchange.hpp"
#include "transport/signal_lines.hpp"

namespace datamover {
namespace {

using transport::BindContext;

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

void check_limit(std::int64_t max_bytes) {
    if (max_bytes >= 0) return;
    throw Error(ErrorCode::invalid_argument,
                "max_bytes is " + std::to_string(max_bytes) +
                    "; it must be positive, or left out (0 in C and C++) for no limit");
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

/// Whether processes may read each other's memory where the system permits it.
bool may_read_peers() {
    const char* text = std::getenv("DATAMOVER_PEER_READS");
    return !text || std::strcmp(text, "0") != 0;
}

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
    mpi::collectively(*group, [&] {
        check_arguments(*group, mine.plan, source, destination);
        check_limit(options.max_bytes);
    });
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
    const bool try_reading = group->peers_readable().value_or(may_read_peers());
    NodeOffers offers = exchange_on_node(*group, source, destination, context.control, try_reading);
    context.node = std::move(offers.peers);

    BoundTransports bound;
    bound.control = context.control;
    bound.per_round = round_counters(mine.outgoing, mine.incoming, me, context.wire().bytes);
    const bool lines_missing = group->node_ranks().size() > 1 && !context.control;
    const bool needs_memory =
        needs_message_memory(*group, mine, {context, offers, {true, false}}, options.transport);
    const auto votes = group->maximum(
        {lines_missing || !offers.mapped, prefers_row_major(destination),
         bound.per_round.bytes_sent, bound.per_round.bytes_received, needs_memory, !offers.readable,
         !offers.permitted, bound.per_round.bytes_sent + bound.per_round.bytes_received,
         bound.per_round.bytes_kept + bound.per_round.bytes_sent,
         bound.per_round.bytes_kept + bound.per_round.bytes_received});
    group->peers_readable() = votes[6] == 0;
    const FactFinder facts(context, offers,
                           {votes[0] == 0, votes[5] == 0, votes[2], votes[3], votes[7]});
    context.order = votes[1] ? plan::MessageOrder::row_major : plan::MessageOrder::column_major;
    // The less loaded side copies, what a process keeps included. Between equals the sender: the
    // cache lines around a face are rewritten by their owner in every step, those of a ghost are
    // only read (measured: a halo of 16³ blocks takes a third of the time that it takes when
    // receivers copy).
    context.receivers_copy = votes[9] < votes[8];
    MessageMemory memory;
    memory.staging = StagingOffers::none(group->node_ranks().size());
    if (votes[0] || votes[4])
        memory = message_memory(*group, mine, facts, context.wire().bytes, options);
    context.chunk_bytes = memory.chunk_bytes;
    context.slots = memory.slots;
    context.lanes_in = memory.staging.lanes_in;
    context.lanes_out = memory.staging.lanes_out;

    mpi::collectively(*group, [&] {
        auto chosen = choose_legs(*group, mine, facts, memory.staging, options.transport);
        bound.reasons = std::move(chosen.reasons);
        // Far peers are served first, the own copy last: it needs nobody.
        for (std::size_t i = chosen.kinds.size(); i-- > 0;) {
            auto& [sends, receives] = chosen.kinds[i];
            if (!sends.empty() || !receives.empty())
                bound.transports.push_back(transport::transport_kinds()[i].bind(
                    context, std::move(sends), std::move(receives)));
        }
    });
    return bound;
}

std::vector<MoverLeg> BoundTransports::legs() const {
    std::vector<MoverLeg> lines;
    for (const auto& t : transports) t->report(lines);
    for (MoverLeg& line : lines)
        for (const LegReason& r : reasons)
            if (r.peer == line.peer && r.sends == line.sends) line.why = r.why;
    return lines;
}

}  // namespace datamover

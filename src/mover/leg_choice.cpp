// SPDX-License-Identifier: BSD-3-Clause
// Which transport carries each pair, and how much memory is there for messages?
#include "leg_choice.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "plan/run_length.hpp"

namespace datamover {
namespace {

using transport::Leg;
using transport::PairFacts;
using transport::StagingLane;

constexpr std::int64_t line_bytes = StagingLane::line_bytes;
constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

std::int64_t whole_lines(std::int64_t bytes) {
    return (bytes + line_bytes - 1) / line_bytes * line_bytes;
}

/// Whether a pair's elements stop over in memory of the library's.
bool needs_memory(const PairFacts& facts, const std::string& transport) {
    if (facts.same_process || transport == "shared") return false;
    return !(transport == "auto" && facts.same_node && facts.in_one_copy());
}

/// Calls visit(facts, sends, part) for everything that this process sends, then receives.
template <class Visit>
void for_each_leg(const mpi::ProcessGroup& group, const ProcessPlan& plan, const FactFinder& facts,
                  Visit&& visit) {
    for (const PeerPart& p : plan.outgoing) visit(facts(group.rank(), p.rank, p.part), true, p);
    for (const PeerPart& p : plan.incoming) visit(facts(p.rank, group.rank(), p.part), false, p);
}

/// Bytes that each process of the node sends here through staging memory.
std::vector<std::int64_t> staged_bytes(const mpi::ProcessGroup& group, const ProcessPlan& plan,
                                       const FactFinder& facts, std::int64_t elem_bytes,
                                       const std::string& transport) {
    std::vector<std::int64_t> bytes(group.node_ranks().size(), 0);
    for (const PeerPart& p : plan.incoming) {
        PairFacts f = facts(p.rank, group.rank(), p.part);
        if (!f.same_node || f.same_process) continue;
        f.staged = true;
        if (transport::choose_transport(f, transport).name != std::string_view("staged")) continue;
        bytes[static_cast<std::size_t>(group.node_position(p.rank))] =
            std::max<std::int64_t>(1, p.part.size() * elem_bytes);
    }
    return bytes;
}

/// What one direction of one pair may take of this process's memory, or no_limit. Throws
/// invalid_argument.
std::int64_t share_of_limit(const mpi::ProcessGroup& group, const ProcessPlan& plan,
                            const FactFinder& facts, std::int64_t elem_bytes,
                            const MoverOptions& options) {
    std::int64_t legs = 0;
    for_each_leg(group, plan, facts, [&](const PairFacts& f, bool, const PeerPart&) {
        legs += needs_memory(f, options.transport);
    });
    if (options.max_bytes == 0 || legs == 0) return no_limit;
    const std::int64_t share = options.max_bytes / legs;
    const std::int64_t least = StagingLane::signal_bytes + whole_lines(elem_bytes);
    if (share < least)
        throw Error(ErrorCode::invalid_argument,
                    "max_bytes is " + std::to_string(options.max_bytes) + ", but process " +
                        std::to_string(group.rank()) + " sends and receives " +
                        std::to_string(legs) + " messages and needs " +
                        std::to_string(legs * least) + " bytes for them");
    return share;
}

bool wants_staging(const mpi::ProcessGroup& group, const std::string& transport) {
    return group.node_ranks().size() > 1 && (transport == "auto" || transport == "staged");
}

}  // namespace

PairFacts FactFinder::operator()(std::int64_t from, std::int64_t to, const PairPart& part) const {
    const mpi::ProcessGroup& group = *context_.group;
    PairFacts facts;
    facts.source_rank = from;
    facts.destination_rank = to;
    facts.same_process = from == to;
    facts.plain_copy = context_.update.is_plain_copy();
    const int source = group.node_position(from), destination = group.node_position(to);
    if (source < 0 || destination < 0) return facts;
    facts.same_node = true;
    if (!use_.mapped) return facts;
    // A side can be reached only if both processes have signal lines, which offers imply.
    facts.source_shared = offers_.source_shared[static_cast<std::size_t>(source)];
    facts.destination_shared = offers_.destination_shared[static_cast<std::size_t>(destination)];
    if (use_.readable && !facts.same_process) add_reading(facts, part);
    return facts;
}

/// Both sides know both memories, and so come to the same decision.
void FactFinder::add_reading(PairFacts& facts, const PairPart& part) const {
    const mpi::ProcessGroup& group = *context_.group;
    const bool sends = facts.source_rank == group.rank();
    const auto& peer = context_.node[static_cast<std::size_t>(
        group.node_position(sends ? facts.destination_rank : facts.source_rank))];
    const MemoryLayout& source = sends ? context_.source->memory : peer.source.memory;
    const MemoryLayout& destination =
        sends ? peer.destination.memory : context_.destination->memory;
    const std::int64_t source_run =
        plan::mean_run_bytes(part, source, true, context_.source->elem_bytes);
    const std::int64_t destination_run =
        plan::mean_run_bytes(part, destination, false, context_.destination->elem_bytes);
    const std::int64_t most = use_.most_sent_bytes + use_.most_received_bytes;
    facts.balanced = most - use_.most_exchanged_bytes <= most / 4;
    facts.readable = true;
    // Two writers could meet in one element: elements are combined by their owner. Between equals,
    // long runs belong on the far side.
    if (!facts.plain_copy)
        facts.receiver_reads = true;
    else if (use_.most_sent_bytes == use_.most_received_bytes)
        facts.receiver_reads = source_run >= destination_run;
    else
        facts.receiver_reads = use_.most_received_bytes < use_.most_sent_bytes;
    if (plan::fastest_alike(part, source, destination))
        facts.direct_run_bytes = std::min(source_run, destination_run);
}

bool needs_message_memory(const mpi::ProcessGroup& group, const ProcessPlan& plan,
                          const FactFinder& facts, const std::string& transport) {
    bool needed = false;
    for_each_leg(group, plan, facts, [&](const PairFacts& f, bool, const PeerPart&) {
        needed = needed || needs_memory(f, transport);
    });
    return needed;
}

MessageMemory message_memory(const mpi::ProcessGroup& group, const ProcessPlan& plan,
                             const FactFinder& facts, std::int64_t elem_bytes,
                             const MoverOptions& options) {
    MessageMemory memory;
    std::int64_t share = no_limit;
    mpi::collectively(group,
                      [&] { share = share_of_limit(group, plan, facts, elem_bytes, options); });
    memory.staging = StagingOffers::none(group.node_ranks().size());
    if (wants_staging(group, options.transport)) {
        StagingSizes sizes;
        sizes.lane_bytes = share;
        memory.staging =
            offer_staging(group, staged_bytes(group, plan, facts, elem_bytes, options.transport),
                          elem_bytes, sizes);
    }
    const auto votes = group.maximum({!memory.staging.mapped, -share});
    if (votes[0]) memory.staging = StagingOffers::none(group.node_ranks().size());
    if (-votes[1] == no_limit) return memory;
    // Two buffers, so that one is packed while the other is sent, unless elements are too large.
    memory.slots = -votes[1] / 2 >= whole_lines(elem_bytes) ? 2 : 1;
    memory.chunk_bytes = -votes[1] / memory.slots / line_bytes * line_bytes;
    return memory;
}

ChosenLegs choose_legs(const mpi::ProcessGroup& group, const ProcessPlan& plan,
                       const FactFinder& facts, const StagingOffers& staging,
                       const std::string& transport) {
    const auto& kinds = transport::transport_kinds();
    ChosenLegs chosen;
    chosen.kinds.resize(kinds.size());
    for_each_leg(group, plan, facts, [&](PairFacts f, bool sends, const PeerPart& p) {
        const int position = group.node_position(p.rank);
        f.staged = sends ? staging.sends_to(position) : staging.receives_from(position);
        const auto& kind = transport::choose_transport(f, transport);
        auto& legs = chosen.kinds[static_cast<std::size_t>(&kind - kinds.data())];
        (sends ? legs.sends : legs.receives).push_back({p.rank, &p.part, f});
        chosen.reasons.push_back({p.rank, sends, transport::reason_for(kind, f, transport)});
    });
    return chosen;
}

}  // namespace datamover

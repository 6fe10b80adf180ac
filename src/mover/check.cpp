// SPDX-License-Identifier: BSD-3-Clause
// Do all processes mean the same move, and is it a sound one?
#include "check.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "plan/conflicts.hpp"
#include "plan/serial.hpp"

namespace datamover {
namespace {

std::int64_t digest_of(const MoverOptions& options) {
    plan::PlanWriter words;
    words.put(static_cast<std::int64_t>(options.op));
    words.put(options.transport);
    for (const double part :
         {options.alpha.real(), options.alpha.imag(), options.beta.real(), options.beta.imag()})
        words.put(std::bit_cast<std::int64_t>(part));
    words.put(std::int64_t{options.conjugate});
    return words.digest();
}

/// What `term` says, for an error text.
std::string text_of(const PlanTerm& term) {
    if (const auto* s = std::get_if<SectionCopy>(&term))
        return "block " + std::to_string(s->source_block) + " " + s->source_region.to_string() +
               " to block " + std::to_string(s->destination_block) + " " +
               s->destination_region.to_string();
    if (const auto* r = std::get_if<Redistribution>(&term))
        return "all of " + r->source_region.to_string() + " to " +
               r->destination_region.to_string();
    const auto& halo = std::get<HaloExchange>(term);
    return "ghosts " + halo.lower.to_string() + " and " + halo.upper.to_string() + " deep";
}

/// Where the digests of this process part from those of process 0; empty where they are the same.
std::string difference(const MotionPlan& plan, const std::vector<std::int64_t>& mine,
                       const std::vector<std::int64_t>& of_first) {
    constexpr std::size_t heads = 3;  // options, source layout, destination layout
    if (mine[0] != of_first[0]) return "op, transport, alpha, beta or conjugate";
    if (mine[1] != of_first[1]) return "the source layout, here " + plan.source().describe();
    if (mine[2] != of_first[2])
        return "the destination layout, here " + plan.destination().describe();
    for (std::size_t i = heads; i < mine.size(); ++i) {
        if (mine[i] == of_first[i]) continue;
        const auto term = static_cast<std::int64_t>(i - heads);
        return "term " + std::to_string(term) + ", here " +
               (term < plan.size() ? text_of(plan[term]) : "missing");
    }
    return {};
}

std::int64_t elems_for(const std::vector<PeerPart>& parts, std::int64_t rank) {
    const auto found =
        std::find_if(parts.begin(), parts.end(), [&](const PeerPart& p) { return p.rank == rank; });
    return found == parts.end() ? 0 : found->part.size();
}

void check_sizes(const mpi::ProcessGroup& group, const ProcessPlan& mine) {
    std::vector<std::int64_t> sent(static_cast<std::size_t>(group.size()), 0);
    for (const PeerPart& p : mine.outgoing) sent[static_cast<std::size_t>(p.rank)] = p.part.size();
    const auto told = group.exchange(std::move(sent));
    mpi::collectively(group, [&] {
        for (std::size_t peer = 0; peer < told.size(); ++peer) {
            const auto rank = static_cast<std::int64_t>(peer);
            const std::int64_t expected = elems_for(mine.incoming, rank);
            if (told[peer] == expected) continue;
            throw Error(ErrorCode::mismatch, "process " + std::to_string(group.rank()) +
                                                 " expects " + std::to_string(expected) +
                                                 " elements of process " + std::to_string(rank) +
                                                 ", which would send " +
                                                 std::to_string(told[peer]));
        }
    });
}

plan::BoundMemory bound_memory(const ArrayPart& part, const Layout& layout) {
    return {&layout, &part.memory, reinterpret_cast<std::uintptr_t>(part.base), part.elem_bytes};
}

}  // namespace

void check_same_plan(const mpi::ProcessGroup& group, const MotionPlan& plan,
                     const MoverOptions& options) {
    std::vector<std::int64_t> mine;
    mpi::collectively(group, [&] {
        mine = plan::plan_digests(plan);
        mine.insert(mine.begin(), digest_of(options));
    });
    const auto longest = group.maximum({static_cast<std::int64_t>(mine.size())});
    // No digest is negative: the maximum is that of process 0.
    constexpr std::int64_t none = -1;
    const auto length = static_cast<std::size_t>(longest[0]);
    mine.resize(length, none);
    const auto of_first =
        group.maximum(group.rank() == 0 ? mine : std::vector<std::int64_t>(length, none));
    mpi::collectively(group, [&] {
        const std::string what = difference(plan, mine, of_first);
        if (!what.empty())
            throw Error(ErrorCode::mismatch, "process " + std::to_string(group.rank()) +
                                                 " brings another move than process 0: they "
                                                 "differ in " +
                                                 what);
    });
}

void check_bound(const mpi::ProcessGroup& group, const ProcessPlan& mine, const ArrayPart& source,
                 const ArrayPart& destination, const MoverOptions& options) {
    check_sizes(group, mine);
    mpi::collectively(group, [&] {
        plan::check_conflicts(bound_memory(source, mine.plan.source()), mine.outgoing,
                              bound_memory(destination, mine.plan.destination()), mine.incoming,
                              group.rank(), options.op != Op::replace);
    });
}

}  // namespace datamover

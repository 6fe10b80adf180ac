// SPDX-License-Identifier: BSD-3-Clause
// Do all processes mean the same move, and is it a sound one?
#include "check.hpp"

#include <algorithm>
#include <bit>
#include <complex>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "geometry/make_error.hpp"
#include "plan/conflicts.hpp"
#include "plan/serial.hpp"

namespace datamover {
namespace {

/// What `term` says, for an error text.
std::string text_of(const PlanTerm& term) {
    if (const auto* s = std::get_if<SectionCopy>(&term))
        return concat("block ", s->source_block, " ", s->source_region, " to block ",
                      s->destination_block, " ", s->destination_region);
    if (const auto* r = std::get_if<Redistribution>(&term))
        return "all of " + r->source_region.to_string() + " to " +
               r->destination_region.to_string();
    const auto& halo = std::get<HaloExchange>(term);
    return "ghosts " + halo.lower.to_string() + " and " + halo.upper.to_string() + " deep" +
           (halo.colours == 1 ? "" : concat(" of colour ", halo.colour, " of ", halo.colours));
}

std::string text_of(std::complex<double> factor) {
    std::ostringstream text;
    text.precision(std::numeric_limits<double>::max_digits10);
    text << factor.real();
    if (factor.imag() != 0) text << (factor.imag() < 0 ? "" : "+") << factor.imag() << "i";
    return text.str();
}

std::string known_transports() {
    std::string names;
    for (const transport::TransportKind& kind : transport::transport_kinds())
        names += (names.empty() ? "" : ", ") + kind.name;
    return names;
}

/// The options that have to be the same, as "name value" each.
std::vector<std::string> texts_of(const MoverOptions& options) {
    return {concat("op ", op_name(options.op)),
            "transport \"" + options.transport + '"',
            "alpha " + text_of(options.alpha),
            "beta " + text_of(options.beta),
            concat("conjugate ", options.conjugate ? "true" : "false"),
            "known transports " + known_transports()};
}

/// Everything that has to be the same besides options, in order: number of motions and of phases,
/// then per motion the digests of its plan.
std::vector<std::int64_t> digests_of(const Moves& moves) {
    std::vector<std::int64_t> all{static_cast<std::int64_t>(moves.motions.size()), moves.phases};
    for (const Motion& motion : moves.motions) {
        const auto of_plan = plan::plan_digests(moves.plans[motion.plan].plan);
        all.insert(all.end(), of_plan.begin(), of_plan.end());
    }
    return all;
}

/// Where the digests of one plan part.
std::string difference(const MotionPlan& plan, std::span<const std::int64_t> mine,
                       std::span<const std::int64_t> of_first) {
    const auto differs = [&](std::size_t i) {
        return i >= of_first.size() || mine[i] != of_first[i];
    };
    constexpr std::size_t heads = 2;
    if (differs(0)) return "the source layout, here " + plan.source().describe();
    if (differs(1)) return "the destination layout, here " + plan.destination().describe();
    for (std::size_t i = heads; i < mine.size(); ++i)
        if (differs(i)) {
            const auto term = static_cast<std::int64_t>(i - heads);
            return concat("term ", term, ", here ", text_of(plan[term]));
        }
    return {};
}

/// Where the digests of this process part from those of process 0; empty where they do not.
std::string difference(const Moves& moves, const std::vector<std::int64_t>& mine,
                       const std::vector<std::int64_t>& of_first) {
    if (mine[0] != of_first[0])
        return concat("the number of arrays, here ", mine[0], ", there ", of_first[0]);
    if (mine[1] != of_first[1])
        return concat("the number of phases, here ", mine[1], ", there ", of_first[1]);
    std::size_t at = 2;
    for (const Motion& motion : moves.motions) {
        const MotionPlan& plan = moves.plans[motion.plan].plan;
        const auto length = static_cast<std::size_t>(plan.size()) + 2;
        const auto rest = std::span(of_first).subspan(std::min(at, of_first.size()));
        const std::string what = difference(plan, std::span(mine).subspan(at, length), rest);
        if (!what.empty()) return what;
        at += length;
    }
    return mine.size() == of_first.size() ? "" : "the number of terms of a plan";
}

/// The first option of this process that is another one on process 0; empty where none is.
std::string difference(const std::vector<std::string>& mine,
                       const std::vector<std::string>& of_first) {
    for (std::size_t i = 0; i < mine.size(); ++i)
        if (mine[i] != of_first[i]) return "options, here " + mine[i] + ", there " + of_first[i];
    return {};
}

/// What process 0 has. No number may be negative. Collective.
std::vector<std::int64_t> of_process_0(const mpi::ProcessGroup& group,
                                       const std::vector<std::int64_t>& mine) {
    const auto longest = group.maximum({static_cast<std::int64_t>(mine.size())});
    constexpr std::int64_t none = -1;
    std::vector<std::int64_t> words(static_cast<std::size_t>(longest[0]), none);
    if (group.rank() == 0) std::copy(mine.begin(), mine.end(), words.begin());
    words = group.maximum(std::move(words));
    std::erase(words, none);
    return words;
}

/// Collective.
std::vector<std::string> of_process_0(const mpi::ProcessGroup& group,
                                      const std::vector<std::string>& mine) {
    constexpr std::int64_t end = 0;
    std::vector<std::int64_t> words;
    for (const std::string& text : mine) {
        for (const char c : text) words.push_back(static_cast<unsigned char>(c));
        words.push_back(end);
    }
    std::vector<std::string> texts(1);
    for (const std::int64_t word : of_process_0(group, words))
        if (word == end)
            texts.emplace_back();
        else
            texts.back() += static_cast<char>(word);
    return texts;
}

std::int64_t elems_for(const std::vector<PeerPart>& parts, std::int64_t rank) {
    const auto found =
        std::ranges::find_if(parts, [&](const PeerPart& p) { return p.rank == rank; });
    return found == parts.end() ? 0 : found->part.size();
}

void check_sizes(const mpi::ProcessGroup& group, const PlannedParts& mine) {
    std::vector<std::int64_t> sent(static_cast<std::size_t>(group.size()), 0);
    for (const PeerPart& p : mine.outgoing) sent[static_cast<std::size_t>(p.rank)] = p.part.size();
    const auto sent_here = group.exchange(std::move(sent));
    mpi::collectively(group, [&] {
        for (std::size_t peer = 0; peer < sent_here.size(); ++peer) {
            const auto rank = static_cast<std::int64_t>(peer);
            const std::int64_t expected = elems_for(mine.incoming, rank);
            if (sent_here[peer] == expected) continue;
            throw make_error(ErrorCode::mismatch, "process ", group.rank(), " expects ", expected,
                             " elements of process ", rank, ", which would send ", sent_here[peer]);
        }
    });
}

plan::BoundMemory bound_memory(const ArrayPart& part, const Layout& layout) {
    return {&layout, &part.memory, reinterpret_cast<std::uintptr_t>(part.base), part.elem_bytes};
}

bool only_halos(const MotionPlan& plan) {
    for (std::int64_t term = 0; term < plan.size(); ++term)
        if (!std::holds_alternative<HaloExchange>(plan[term])) return false;
    return true;
}

std::vector<plan::BoundParts> bound_parts(const Moves& moves) {
    std::vector<plan::BoundParts> all;
    for (std::size_t m = 0; m < moves.motions.size(); ++m) {
        const PlannedParts& p = moves.parts_of(m);
        const auto& array = moves.motions[m].array;
        all.push_back({bound_memory(array.source, p.plan.source()), &p.outgoing,
                       bound_memory(array.destination, p.plan.destination()), &p.incoming,
                       p.in_place && only_halos(p.plan)});
    }
    return all;
}

}  // namespace

std::int64_t digest_of(const MoverOptions& options) {
    plan::PlanWriter words;
    words.put(static_cast<std::int64_t>(options.op));
    words.put(options.transport);
    words.put(transport::transport_kinds_digest());
    for (const double part :
         {options.alpha.real(), options.alpha.imag(), options.beta.real(), options.beta.imag()})
        words.put(std::bit_cast<std::int64_t>(part));
    words.put(std::int64_t{options.conjugate});
    return words.digest();
}

std::int64_t digest_of(const Moves& moves) {
    plan::PlanWriter words;
    for (const PlannedParts& planned : moves.plans) words.put_all(plan::plan_digests(planned.plan));
    for (const Motion& motion : moves.motions) words.put(static_cast<std::int64_t>(motion.plan));
    return words.digest();
}

void throw_difference(const mpi::ProcessGroup& group, const Moves& moves,
                      const MoverOptions& options) {
    const auto mine = digests_of(moves), of_first = of_process_0(group, mine);
    const auto texts = texts_of(options), texts_of_first = of_process_0(group, texts);
    mpi::collectively(group, [&] {
        std::string what = difference(texts, texts_of_first);
        if (what.empty()) what = difference(moves, mine, of_first);
        if (!what.empty())
            throw make_error(ErrorCode::mismatch, "process ", group.rank(),
                             " brings another move than process 0: they "
                             "differ in ",
                             what);
    });
    throw Error(ErrorCode::mismatch, "the processes bring different moves");
}

void check_bound(const mpi::ProcessGroup& group, const Moves& moves, const MoverOptions& options) {
    for (const PlannedParts& planned : moves.plans) check_sizes(group, planned);
    mpi::collectively(group, [&] {
        // beta is applied with each element that arrives: two would apply it twice.
        const bool may_meet = options.op != Op::replace && options.beta == 1.0;
        plan::check_conflicts(bound_parts(moves), group.rank(), may_meet);
    });
}

void check_overlaps(const Moves& moves, std::int64_t rank) {
    plan::check_overlaps(bound_parts(moves), rank);
}

}  // namespace datamover

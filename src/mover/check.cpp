// SPDX-License-Identifier: BSD-3-Clause
// Checks when a mover is bound: arguments, what processes passed, bytes that are written twice.
#include "binding.hpp"

#include <algorithm>
#include <complex>
#include <cstdlib>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "mpi/collectives.hpp"
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
           (halo.colors == 1 ? "" : concat(" of color ", halo.color, " of ", halo.colors));
}

std::string text_of(std::complex<double> factor) {
    std::ostringstream text;
    text.precision(std::numeric_limits<double>::max_digits10);
    text << factor.real();
    if (factor.imag() != 0) text << (factor.imag() < 0 ? "" : "+") << factor.imag() << "i";
    return text.str();
}

/// The options that must be the same on all processes.
std::vector<std::string> texts_of(const MoverOptions& options) {
    return {concat("op=\"", op_name(options.op), '"'),
            "transport=\"" + options.transport + '"',
            "alpha=" + text_of(options.alpha),
            "beta=" + text_of(options.beta),
            concat("conjugate=", options.conjugate ? "true" : "false"),
            "known transports " + transport::transport_names()};
}

std::int64_t elems_for(const std::vector<PeerPart>& parts, std::int64_t rank) {
    const auto found =
        std::ranges::find_if(parts, [&](const PeerPart& p) { return p.rank == rank; });
    return found == parts.end() ? 0 : found->part.size();
}

void check_sizes(const mpi::ProcessGroup& group, const PlannedParts& mine) {
    std::vector<std::int64_t> sent(static_cast<std::size_t>(group.size()), 0);
    for (const PeerPart& p : mine.outgoing) sent[static_cast<std::size_t>(p.rank)] = p.part.size();
    const auto sent_here = mpi::exchange(group, std::move(sent));
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

std::string array_name(Side side, std::int64_t rank) {
    return concat(side_name(side), " array on process ", rank);
}

void check_array(const ArrayPart& part, const Layout& layout, Side side, std::int64_t rank) {
    if (part.elem_bytes < 1)
        throw make_error(ErrorCode::wrong_type, array_name(side, rank), " has elements of ",
                         part.elem_bytes, " bytes");
    if (part.layout.valid() && !(part.layout == layout))
        throw make_error(ErrorCode::mismatch, array_name(side, rank), " is laid out as ",
                         part.layout.describe(), ", the plan's ", side_name(side), " as ",
                         layout.describe());
    for (const std::int64_t block : layout.blocks_of(rank)) {
        const BlockMemory* memory = part.memory.find(block);
        if (!memory)
            throw make_error(ErrorCode::mismatch, array_name(side, rank), " lacks block ", block,
                             " of its layout");
        const Region interior = Region::from_shape(layout.block_extents(block));
        if (!memory->valid.contains(interior))
            throw make_error(ErrorCode::mismatch, array_name(side, rank), ": block ", block,
                             " has room for local indices ", memory->valid, ", its layout needs ",
                             interior);
    }
    if (!part.base && part.memory.end_bytes > part.memory.begin_bytes)
        throw make_error(ErrorCode::invalid_state, array_name(side, rank),
                         " has no memory (was it freed?)");
}

std::string elements_of(const ArrayPart& part) {
    const bool opaque = part.type == ScalarType::opaque;
    return concat(scalar_name(part.type), " elements of ", part.elem_bytes, " bytes",
                  opaque ? " (structures, texts, times, long doubles or another byte order)" : "");
}

/// Elements that lie on top of each other would each be written.
void check_elements_apart(const ArrayPart& array, std::int64_t rank) {
    for (const BlockMemory& block : array.memory.blocks)
        for (int d = 0; d < block.valid.dims(); ++d)
            if (block.valid.extent(d) > 1 && std::abs(block.strides_bytes[d]) < array.elem_bytes)
                throw make_error(ErrorCode::invalid_argument, array_name(Side::destination, rank),
                                 " has a stride of ", block.strides_bytes[d],
                                 " bytes in dimension ", d, ": elements of ", array.elem_bytes,
                                 " bytes lie on top of each other");
}

/// Each kind of number converts to those of higher kinds under NumPy's "same_kind".
int number_kind(ScalarType type) {
    if (type == ScalarType::boolean) return 0;
    if (type >= ScalarType::uint8 && type <= ScalarType::uint64) return 1;
    if (type >= ScalarType::int8 && type <= ScalarType::int64) return 2;
    return type == ScalarType::complex64 || type == ScalarType::complex128 ? 4 : 3;
}

}  // namespace

std::int64_t digest_of(const Moves& moves, const MoverOptions& options) {
    plan::PlanWriter words;
    words.put(digest_of(moves));
    for (const std::string& option : texts_of(options)) words.put(option);
    return words.digest();
}

std::int64_t digest_of(const Moves& moves) {
    plan::PlanWriter words;
    words.put(moves.phases);
    words.put(static_cast<std::int64_t>(moves.motions.size()));
    for (const PlannedParts& planned : moves.plans) words.put(plan::plan_digests(planned.plan));
    for (const Motion& motion : moves.motions) {
        words.put(static_cast<std::int64_t>(motion.plan));
        words.put(text_of(motion.alpha));
    }
    return words.digest();
}

/// Compares the options, the numbers of arrays and phases, then of each motion the factor, the
/// number of terms, the layouts and the terms.
void throw_difference(const mpi::ProcessGroup& group, const Moves& moves,
                      const MoverOptions& options) {
    std::vector<std::int64_t> digests;
    std::vector<std::function<mpi::PassedValue()>> described;
    const auto add = [&](std::int64_t digest, std::function<mpi::PassedValue()> value) {
        digests.push_back(digest);
        described.push_back(std::move(value));
    };
    const auto add_text = [&](const char* what, const std::string& text) {
        add(geometry::text_digest(text), [what, text] { return mpi::PassedValue{what, text}; });
    };
    for (const std::string& option : texts_of(options)) add_text("options", option);
    add_text("numbers of arrays", std::to_string(moves.motions.size()));
    add_text("numbers of phases", std::to_string(moves.phases));
    for (const Motion& motion : moves.motions) {
        const MotionPlan& plan = moves.plans[motion.plan].plan;
        const std::vector<std::int64_t>& plan_digests = plan::plan_digests(plan);
        add_text("factors", "alpha=" + text_of(motion.alpha));
        add_text("numbers of terms", std::to_string(plan.size()));
        add(plan_digests[0],
            [&plan] { return mpi::PassedValue{"source layouts", plan.source().describe()}; });
        add(plan_digests[1], [&plan] {
            return mpi::PassedValue{"destination layouts", plan.destination().describe()};
        });
        for (std::int64_t term = 0; term < plan.size(); ++term)
            add(plan_digests[static_cast<std::size_t>(term) + 2], [&plan, term] {
                return mpi::PassedValue{concat("plans in term ", term), text_of(plan[term])};
            });
    }
    mpi::require_same(group, digests, [&](std::size_t i) { return described[i](); });
    throw Error(ErrorCode::mismatch, "processes passed different plans or options");
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

void check_types(const ArrayPart& source, const ArrayPart& destination,
                 const MoverOptions& options) {
    const bool numbers =
        source.type != ScalarType::opaque && destination.type != ScalarType::opaque;
    const bool equal =
        source.type == destination.type && source.elem_bytes == destination.elem_bytes;
    if (!numbers && !equal)
        throw make_error(ErrorCode::wrong_type, "the source has ", elements_of(source),
                         ", the destination ", elements_of(destination),
                         ": only number types are converted");
    if (options.same_kind && numbers && number_kind(source.type) > number_kind(destination.type))
        throw make_error(ErrorCode::wrong_type, "source elements are ", scalar_name(source.type),
                         ", destination elements ", scalar_name(destination.type),
                         ": numbers are converted as NumPy does under \"same_kind\"");
    if (options.beta != 1.0 && options.op != Op::add)
        throw make_error(ErrorCode::invalid_argument, "beta is (", options.beta.real(), ", ",
                         options.beta.imag(),
                         "): it is the factor of the elements in place with the operation add, "
                         "which this is not");
    const bool arithmetic = options.op != Op::replace || options.conjugate || options.alpha != 1.0;
    if (arithmetic && !numbers)
        throw Error(
            ErrorCode::wrong_type,
            "op, alpha and conjugate need elements of a number type, not " + elements_of(source));
}

void check_arguments(const Moves& moves, const mpi::ProcessGroup& group,
                     const MoverOptions& options) {
    if (options.max_bytes < 0)
        throw make_error(ErrorCode::invalid_argument, "max_bytes is ", options.max_bytes,
                         "; it must be positive, or left out (0 in C and C++) for no limit");
    for (const PlannedParts& planned : moves.plans) {
        if (!planned.plan.source().valid())
            throw Error(ErrorCode::invalid_argument, "the plan is empty");
        if (planned.plan.nprocs() != group.size())
            throw make_error(ErrorCode::mismatch, "the plan is for ", planned.plan.nprocs(),
                             " processes, the communicator has ", group.size());
    }
    for (const Motion& motion : moves.motions) {
        const MotionPlan& plan = moves.plans[motion.plan].plan;
        check_array(motion.array.source, plan.source(), Side::source, group.rank());
        check_array(motion.array.destination, plan.destination(), Side::destination, group.rank());
        if (!motion.array.destination.writable)
            throw make_error(ErrorCode::invalid_argument,
                             array_name(Side::destination, group.rank()), " is read-only");
        if (options.op == Op::replace) check_elements_apart(motion.array.destination, group.rank());
    }
}

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Checks of the arrays passed to a mover.
#include "binding_arguments.hpp"

#include <cstdlib>
#include <string>

#include "geometry/make_error.hpp"

namespace datamover {
namespace {

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

void check_plan(const MotionPlan& plan, const mpi::ProcessGroup& group) {
    if (!plan.source().valid()) throw Error(ErrorCode::invalid_argument, "the plan is empty");
    if (plan.nprocs() != group.size())
        throw make_error(ErrorCode::mismatch, "the plan is for ", plan.nprocs(),
                         " processes, the communicator has ", group.size());
}

void check_options(const MoverOptions& options) {
    if (options.max_bytes < 0)
        throw make_error(ErrorCode::invalid_argument, "max_bytes is ", options.max_bytes,
                         "; it must be positive, or left out (0 in C and C++) for no limit");
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

}  // namespace

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
    check_options(options);
    for (const PlannedParts& planned : moves.plans) check_plan(planned.plan, group);
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

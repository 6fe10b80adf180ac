// SPDX-License-Identifier: BSD-3-Clause
// Copying a section of one ScaLAPACK matrix, or a trapezoid of it, to a section of another.
#include "datamover/scalapack_copy.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "geometry/make_error.hpp"
#include "matrix_arguments.hpp"
#include "mover_cache.hpp"

namespace datamover {
namespace {

// ---------------------------------------------------------------- trapezoids

struct RowRange {
    std::int64_t first, end;
    bool operator==(const RowRange&) const = default;
};

/// The rows of column `column` of an m x n section that are in a trapezoid, not the whole. As
/// ScaLAPACK's p?trmr2d has it: with more rows than columns the diagonal of an upper trapezoid ends
/// in the lower right corner, with more columns than rows so does a lower one's; else it begins in
/// the upper left corner.
RowRange rows_of_column(SectionPart part, std::int64_t column, std::int64_t m, std::int64_t n) {
    const auto row = [m](std::int64_t r) { return std::clamp<std::int64_t>(r, 0, m); };
    const std::int64_t above = std::max<std::int64_t>(m - n, 0) + column;
    const std::int64_t below = column - std::max<std::int64_t>(n - m, 0);
    if (part == SectionPart::upper) return {0, row(above + 1)};
    if (part == SectionPart::strictly_upper) return {0, row(above)};
    if (part == SectionPart::lower) return {row(below), m};
    return {row(below + 1), m};
}

/// Rows and columns of a section, counted from its corner.
Region within(const Region& section, const RowRange& rows, std::int64_t column, std::int64_t end) {
    const Point& corner = section.lo();
    return {Point{corner[0] + rows.first, corner[1] + column},
            Point{corner[0] + rows.end, corner[1] + end}};
}

/// The plan that copies the trapezoid of `source_section` to that of `destination_section`, which
/// have the same shape: a term for each run of columns that have the same rows. O(columns).
MotionPlan trapezoid_copy(const Layout& source, const Region& source_section,
                          const Layout& destination, const Region& destination_section,
                          SectionPart part) {
    MotionPlan plan(source, destination);
    const std::int64_t m = source_section.shape()[0], n = source_section.shape()[1];
    for (std::int64_t column = 0, end = 0; column < n; column = end) {
        const RowRange rows = rows_of_column(part, column, m, n);
        end = column + 1;
        while (end < n && rows_of_column(part, end, m, n) == rows) ++end;
        if (rows.first == rows.end) continue;
        Redistribution term;
        term.source_region = within(source_section, rows, column, end);
        term.destination_region = within(destination_section, rows, column, end);
        plan.add(term);
    }
    return plan;
}

// ---------------------------------------------------------------- what a mover is bound to

/// The section in 0-based, half-open indices.
Region section_region(const std::vector<CopyArguments>& all, MatrixArguments CopyArguments::* m) {
    const MatrixArguments& matrix = known_matrix(all, m);
    return {Point{matrix.row - 1, matrix.column - 1},
            Point{matrix.row - 1 + all[0].rows(m), matrix.column - 1 + all[0].columns(m)}};
}

ScalapackDescriptor descriptor_of(const MatrixArguments& matrix) {
    const auto& [dtype, context, m, n, mb, nb, rsrc, csrc, lld] = matrix.descriptor;
    return {m, n, mb, nb, rsrc, csrc, lld};
}

BlockCyclic layout_of(const std::vector<CopyArguments>& all, MatrixArguments CopyArguments::* m) {
    const MatrixArguments& matrix = known_matrix(all, m);
    const ProcessGrid grid{matrix.nprow, matrix.npcol, false, ranks_of_grid(all, m)};
    return descriptor_of(matrix).layout(grid, std::ssize(all));
}

ArrayPart part_of(const CopyArguments& copy, const MatrixArguments& matrix,
                  const BlockCyclic& layout, std::int64_t rank) {
    ArrayPart part;
    part.layout = layout;
    part.elem_bytes = copy.elem_bytes;
    part.type = copy.type;
    if (!matrix.in_grid()) return part;
    part.memory = descriptor_of(matrix).memory(layout, rank, copy.elem_bytes);
    part.base = matrix.data;
    // Memory that the section does not touch need not be there.
    if (!part.base) part.memory.end_bytes = part.memory.begin_bytes;
    return part;
}

/// A plan that moves nothing, for as many processes.
PlannedArrays nothing(std::int64_t nprocs, std::int64_t elem_bytes) {
    const Layout no_blocks = FloorPlan(1, {}, {}, {}, nprocs);
    ArrayPart part;
    part.layout = no_blocks;
    part.elem_bytes = elem_bytes;
    return {MotionPlan(no_blocks, no_blocks), {part}, {part}};
}

/// Collective. Throws WrongArgument, the same on all processes.
PlannedArrays section_copy(const mpi::ProcessGroup& group, const CopyArguments& mine) {
    const auto all = allgather_arguments(group, mine);
    check_arguments(all);
    if (mine.nothing_to_copy()) return nothing(group.size(), mine.elem_bytes);
    const BlockCyclic source = layout_of(all, &CopyArguments::a),
                      destination = layout_of(all, &CopyArguments::b);
    const Region from = section_region(all, &CopyArguments::a),
                 to = section_region(all, &CopyArguments::b);
    return {mine.part == SectionPart::whole
                ? redistribute(source, from, destination, to,
                               mine.transposed ? std::vector<int>{1, 0} : std::vector<int>{})
                : trapezoid_copy(source, from, destination, to, mine.part),
            {part_of(mine, mine.a, source, group.rank())},
            {part_of(mine, mine.b, destination, group.rank())}};
}

// ---------------------------------------------------------------- grids that are given

/// Where in a grid a rank stands. Throws for grids that make no sense.
MatrixArguments arguments_of(const ScalapackMatrix& matrix, std::int64_t rank, std::int64_t nprocs,
                             const char* name) {
    const ProcessGrid& grid = matrix.grid;
    if (matrix.descriptor[0] != ScalapackDescriptor::dense_matrix)
        throw make_error(ErrorCode::unsupported, "DTYPE_ of the descriptor of matrix ", name,
                         " is ", matrix.descriptor[0], "; only dense matrices (1) are known");
    if (grid.nprow < 1 || grid.npcol < 1 || grid.nprow > nprocs / grid.npcol)
        throw make_error(ErrorCode::invalid_argument, "the grid of matrix ", name, " is ",
                         grid.nprow, " x ", grid.npcol, "; the communicator has ", nprocs,
                         " processes");
    const std::int64_t places = grid.nprow * grid.npcol;
    if (!grid.ranks.empty() && std::ssize(grid.ranks) != places)
        throw make_error(ErrorCode::invalid_argument, "the grid of matrix ", name, " has ", places,
                         " places and ", grid.ranks.size(), " ranks");
    MatrixArguments told;
    told.data = matrix.data;
    told.row = matrix.row, told.column = matrix.column;
    told.nprow = grid.nprow, told.npcol = grid.npcol;
    std::ranges::copy(matrix.descriptor, told.descriptor.begin());
    for (std::int64_t i = 0; i < places; ++i) {
        const std::int64_t at = grid.ranks.empty() ? i : grid.ranks[static_cast<std::size_t>(i)];
        if (at < 0 || at >= nprocs)
            throw make_error(ErrorCode::out_of_range, "rank ", at, " in the grid of matrix ", name,
                             " is not one of the communicator's ", nprocs);
        if (at != rank) continue;
        told.grid_row = grid.column_major ? i % grid.nprow : i / grid.npcol;
        told.grid_column = grid.column_major ? i / grid.nprow : i % grid.npcol;
    }
    return told;
}

}  // namespace

Mover copy_section(MPI_Comm comm, const std::function<CopyArguments()>& arguments,
                   int& wrong_argument) {
    CopyArguments mine;
    std::exception_ptr fault;
    std::vector<std::int64_t> key;
    try {
        mine = arguments();
        key = words_of(mine);
    } catch (...) {
        fault = std::current_exception();
        key = {-1};  // no call's that succeeded: all come to what follows
    }
    Mover mover = cached_mover(comm, key, [&] {
        const auto group = mpi::ProcessGroup::of(comm);
        mpi::collectively(*group, [&] {
            if (fault) std::rethrow_exception(fault);
        });
        PlannedArrays planned;
        mpi::collectively(*group, [&] {
            try {
                planned = section_copy(*group, mine);
            } catch (const WrongArgument& e) {
                wrong_argument = e.position();
                throw;
            }
        });
        return Mover(comm, {planned}, mine.options);
    });
    mover();
    return mover;
}

void copy_matrix(MPI_Comm comm, std::int64_t m, std::int64_t n, const ScalapackMatrix& source,
                 const ScalapackMatrix& destination, std::int64_t elem_bytes) {
    const auto arguments = [&] {
        CopyArguments all;
        all.m = m, all.n = n, all.elem_bytes = elem_bytes;
        if (all.nothing_to_copy()) return all;
        const auto group = mpi::ProcessGroup::of(comm);
        all.a = arguments_of(source, group->rank(), group->size(), "A");
        all.b = arguments_of(destination, group->rank(), group->size(), "B");
        return all;
    };
    int wrong_argument = 0;
    copy_section(comm, arguments, wrong_argument);
}

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// C interface: copying sections of ScaLAPACK matrices without BLACS.

#include "datamover/scalapack_copy.hpp"
#include "layouts.hpp"
#include "movers.hpp"
#include "scalapack/sections/matrix_arguments.hpp"
#include "scalapack/sections/mover_cache.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace {

std::byte* bytes_at(const void* data) {
    return const_cast<std::byte*>(static_cast<const std::byte*>(data));
}

MatrixArguments arguments_of(const datamover_matrix& matrix) {
    MatrixArguments told;
    if (!matrix.descriptor || matrix.nprow < 1 || matrix.npcol < 1) return told;
    told.data = static_cast<std::byte*>(matrix.data);
    told.row = matrix.row, told.column = matrix.column;
    told.nprow = matrix.nprow, told.npcol = matrix.npcol;
    if (matrix.grid_row >= matrix.nprow || matrix.grid_column >= matrix.npcol)
        throw make_error(ErrorCode::out_of_range, "this process's place in the grid is (",
                         matrix.grid_row, ", ", matrix.grid_column, "); the grid is ", matrix.nprow,
                         " x ", matrix.npcol);
    if (matrix.grid_row >= 0 && matrix.grid_column >= 0)
        told.grid_row = matrix.grid_row, told.grid_column = matrix.grid_column;
    std::copy_n(matrix.descriptor, told.descriptor.size(), told.descriptor.begin());
    // What is not looked at does not tell one call from another.
    told.descriptor[0] = told.descriptor[1] = 0;
    return told;
}

void tell(const Mover& mover, datamover_matrix_outcome& outcome) {
    outcome.planned = mover.counters().rounds == 1;
    outcome.count = 0;
    if (!outcome.pairs) return;  // they are worked out anew in each call
    const auto pairs = mover.pairs();
    outcome.count = std::ssize(pairs);
    const auto fit = std::min(outcome.count, std::max<std::int64_t>(outcome.capacity, 0));
    std::transform(pairs.begin(), pairs.begin() + fit, outcome.pairs,
                   [](const MoverPair& pair) { return described(pair); });
}

/// Throws invalid_argument for letters that are not known.
SectionPart trapezoid_of(char uplo, char diag) {
    const auto is = [](char letter, char upper) {
        return letter == upper || letter == upper - 'A' + 'a';
    };
    if (!is(uplo, 'U') && !is(uplo, 'L'))
        throw make_error(ErrorCode::invalid_argument, "uplo is '", uplo,
                         "'; it must be 'U' or 'L'");
    if (!is(diag, 'U') && !is(diag, 'N'))
        throw make_error(ErrorCode::invalid_argument, "diag is '", diag,
                         "'; it must be 'U' or 'N'");
    if (is(uplo, 'U')) return is(diag, 'N') ? SectionPart::upper : SectionPart::strictly_upper;
    return is(diag, 'N') ? SectionPart::lower : SectionPart::strictly_lower;
}

/// Moves between matrices. `refine` sets what the two calls differ in.
template <class Refine>
int move_matrix(MPI_Comm comm, std::int64_t elem_bytes, int m, int n, const datamover_matrix* a,
                const datamover_matrix* b, datamover_matrix_outcome* outcome, Refine&& refine) {
    int wrong_argument = 0;
    const int code = guarded([&] {
        const auto arguments = [&] {
            CopyArguments copy;
            copy.m = m, copy.n = n, copy.elem_bytes = elem_bytes;
            if (copy.nothing_to_copy()) return copy;
            copy.a = arguments_of(given(a, "a"));
            copy.b = arguments_of(given(b, "b"));
            refine(copy);
            return copy;
        };
        const Mover mover = copy_section(comm, arguments, wrong_argument);
        if (outcome) tell(mover, *outcome);
    });
    if (outcome) outcome->wrong_argument = wrong_argument;
    return code;
}

}  // namespace

int datamover_matrix_move(MPI_Comm comm, datamover_type type, int64_t elem_bytes, int m, int n,
                          const datamover_matrix* a, const datamover_matrix* b, int transposed,
                          const datamover_mover_options* options,
                          datamover_matrix_outcome* outcome) {
    return move_matrix(comm, elem_bytes, m, n, a, b, outcome, [&](CopyArguments& copy) {
        copy.transposed = transposed != 0;
        copy.type = scalar_type(type, elem_bytes);
        copy.options = options_of(options);
    });
}

int datamover_trapezoid_move(MPI_Comm comm, int64_t elem_bytes, char uplo, char diag, int m, int n,
                             const datamover_matrix* a, const datamover_matrix* b,
                             datamover_matrix_outcome* outcome) {
    return move_matrix(comm, elem_bytes, m, n, a, b, outcome, [&](CopyArguments& copy) {
        copy.part = trapezoid_of(uplo, diag);
        copy.type = scalar_type(DATAMOVER_OPAQUE, elem_bytes);
    });
}

int datamover_matrix_cache_drop(MPI_Comm comm) {
    return guarded([&] { drop_cached_movers(comm); });
}

int datamover_gemr2d(MPI_Comm comm, int64_t elem_bytes, int m, int n, const void* a, int ia, int ja,
                     const int desca[9], const datamover_process_grid* grid_a, void* b, int ib,
                     int jb, const int descb[9], const datamover_process_grid* grid_b) {
    return guarded([&] {
        const auto [from, to] = capi::collectively(comm, [&] {
            return std::pair<ScalapackMatrix, ScalapackMatrix>{
                {bytes_at(a), entries_of(desca, "desca"), grid_of(grid_a, "grid_a"), ia, ja},
                {bytes_at(b), entries_of(descb, "descb"), grid_of(grid_b, "grid_b"), ib, jb}};
        });
        copy_matrix(comm, m, n, from, to, elem_bytes);
    });
}

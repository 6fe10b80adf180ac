// SPDX-License-Identifier: BSD-3-Clause
// How does a C program copy sections between ScaLAPACK's matrices without BLACS?
#include <algorithm>
#include <bit>

#include "datamover/scalapack_copy.hpp"
#include "handles.hpp"
#include "matrices.hpp"
#include "mover/matrix_section.hpp"
#include "mover_options.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace {

struct Matrices {
    ScalapackMatrix a, b;
};

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
        throw Error(ErrorCode::out_of_range,
                    "this process's place in the grid is (" + std::to_string(matrix.grid_row) +
                        ", " + std::to_string(matrix.grid_column) + "); the grid is " +
                        std::to_string(matrix.nprow) + " x " + std::to_string(matrix.npcol));
    if (matrix.grid_row >= 0 && matrix.grid_column >= 0)
        told.grid_row = matrix.grid_row, told.grid_column = matrix.grid_column;
    std::copy_n(matrix.descriptor, told.descriptor.size(), told.descriptor.begin());
    // What is not looked at does not tell one call from another.
    told.descriptor[0] = told.descriptor[1] = 0;
    return told;
}

void append_key(std::vector<std::int64_t>& key, const datamover_matrix* matrix) {
    if (!matrix) return key.push_back(-1);
    key.insert(key.end(), {static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(matrix->data)),
                           matrix->row, matrix->column, matrix->nprow, matrix->npcol,
                           matrix->grid_row, matrix->grid_column});
    if (matrix->descriptor && matrix->nprow > 0)
        key.insert(key.end(), matrix->descriptor + 2, matrix->descriptor + 9);
}

void append_key(std::vector<std::int64_t>& key, const datamover_mover_options* options) {
    if (!options) return key.push_back(-1);
    for (const double* factor : {options->alpha, options->beta}) {
        key.push_back(factor != nullptr);
        if (!factor) continue;
        key.push_back(std::bit_cast<std::int64_t>(factor[0]));
        key.push_back(std::bit_cast<std::int64_t>(factor[1]));
    }
    key.insert(key.end(), {options->conjugate, options->max_bytes, options->check});
    for (const char* name : {options->op, options->transport}) {
        key.push_back(-1);
        for (; name && *name; ++name) key.push_back(*name);
    }
}

void tell(const Mover& mover, datamover_matrix_outcome& outcome) {
    outcome.planned = mover.counters().rounds == 1;
    outcome.count = 0;
    if (!outcome.pairs) return;  // they are worked out anew in each call
    const auto pairs = mover.pairs();
    outcome.count = std::ssize(pairs);
    const auto fit = std::min(outcome.count, std::max<std::int64_t>(outcome.capacity, 0));
    std::transform(pairs.begin(), pairs.begin() + fit, outcome.pairs, described);
}

}  // namespace

int datamover_matrix_move(MPI_Comm comm, datamover_type type, int64_t elem_bytes, int m, int n,
                          const datamover_matrix* a, const datamover_matrix* b, int transposed,
                          const datamover_mover_options* options,
                          datamover_matrix_outcome* outcome) {
    int wrong_argument = 0;
    const int code = guarded([&] {
        std::vector<std::int64_t> key;
        if (m != 0 && n != 0) {
            key = {m, n, elem_bytes, type, transposed != 0};
            append_key(key, a);
            append_key(key, b);
            append_key(key, options);
        }
        const auto arguments = [&] {
            CopyArguments copy;
            copy.m = m, copy.n = n, copy.elem_bytes = elem_bytes;
            if (copy.nothing_to_copy()) return copy;
            copy.a = arguments_of(given(a, "a"));
            copy.b = arguments_of(given(b, "b"));
            copy.transposed = transposed != 0;
            copy.type = scalar_type(type, elem_bytes);
            copy.options = options_of(options);
            return copy;
        };
        const Mover mover = copy_section(comm, key, arguments, wrong_argument);
        if (outcome) tell(mover, *outcome);
    });
    if (outcome) outcome->wrong_argument = wrong_argument;
    return code;
}

int datamover_gemr2d(MPI_Comm comm, int64_t elem_bytes, int m, int n, const void* a, int ia, int ja,
                     const int desca[9], const datamover_process_grid* grid_a, void* b, int ib,
                     int jb, const int descb[9], const datamover_process_grid* grid_b) {
    return guarded([&] {
        const Matrices matrices = capi::collectively(comm, [&] {
            return Matrices{
                {bytes_at(a), entries_of(desca, "desca"), grid_of(grid_a, "grid_a"), ia, ja},
                {bytes_at(b), entries_of(descb, "descb"), grid_of(grid_b, "grid_b"), ib, jb}};
        });
        copy_matrix(comm, m, n, matrices.a, matrices.b, elem_bytes);
    });
}

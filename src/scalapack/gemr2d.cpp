// SPDX-License-Identifier: BSD-3-Clause
// How do calls with the arguments of ScaLAPACK's p?gemr2d learn grids and communicator from BLACS?
#include "gemr2d.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "capi/handles.hpp"
#include "context_communicator.hpp"
#include "datamover/datamover_scalapack.h"
#include "mover/matrix_section.hpp"

// Of the BLACS that the program is linked with; it comes without a header.
extern "C" {
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinfo(int context, int* nprow, int* npcol, int* row, int* column);
MPI_Comm Cblacs2sys_handle(int handle);
}

namespace datamover {
namespace {

struct Outcome {
    int code = 0, argument = 0;
};
thread_local Outcome last_outcome;

constexpr int ask_for_communicator = 10;  // of a context, in Cblacs_get

struct Place {
    int nprow = -1, npcol = -1, row = -1, column = -1;

    explicit Place(int context) {
        if (context < 0) return;
        Cblacs_gridinfo(context, &nprow, &npcol, &row, &column);
        // Some BLACS give processes outside the grid a place beyond it.
        if (row >= nprow || column >= npcol) row = column = -1;
    }
    bool in_grid() const { return row >= 0 && column >= 0; }
};

/// What this process says of a matrix: nothing where it is not in its grid. The type of the
/// descriptor is not looked at, as in ScaLAPACK.
MatrixArguments matrix_arguments(const void* data, int row, int column, const int* descriptor) {
    MatrixArguments matrix;
    if (!descriptor) return matrix;
    const Place place(descriptor[1]);
    if (!place.in_grid()) return matrix;
    matrix.data = const_cast<std::byte*>(static_cast<const std::byte*>(data));
    matrix.row = row, matrix.column = column;
    matrix.nprow = place.nprow, matrix.npcol = place.npcol;
    matrix.grid_row = place.row, matrix.grid_column = place.column;
    std::copy_n(descriptor, matrix.descriptor.size(), matrix.descriptor.begin());
    // What is not looked at does not tell one call from another.
    matrix.descriptor[0] = matrix.descriptor[1] = 0;
    return matrix;
}

void append_key(std::vector<std::int64_t>& key, const MatrixArguments& matrix) {
    key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(matrix.data)));
    key.insert(key.end(), {matrix.row, matrix.column, matrix.nprow, matrix.npcol, matrix.grid_row,
                           matrix.grid_column});
    key.insert(key.end(), matrix.descriptor.begin(), matrix.descriptor.end());
}

/// All that this process says of a call; nothing where there is nothing to copy.
std::vector<std::int64_t> key_of(const CopyArguments& copy) {
    std::vector<std::int64_t> key;
    if (copy.nothing_to_copy()) return key;
    key = {copy.m, copy.n, copy.elem_bytes};
    append_key(key, copy.a);
    append_key(key, copy.b);
    return key;
}

void copy_in_context(int context, const CopyArguments& copy, int& wrong_argument) {
    if (!Place(context).in_grid()) {
        if (copy.nothing_to_copy()) return;  // as ScaLAPACK does
        throw WrongArgument(ErrorCode::invalid_argument,
                            "this process is not in the BLACS context " + std::to_string(context),
                            ArgumentPosition::context);
    }
    int handle = -1;
    Cblacs_get(context, ask_for_communicator, &handle);
    copy_section(
        context_communicator(Cblacs2sys_handle(handle)), key_of(copy), [&] { return copy; },
        wrong_argument);
}

int gemr2d(std::int64_t elem_bytes, int m, int n, const void* a, int ia, int ja, const int* desca,
           void* b, int ib, int jb, const int* descb, int context) {
    last_outcome = {};
    last_outcome.code = capi::guarded([&] {
        CopyArguments copy{m, n, elem_bytes, {}, {}};
        if (!copy.nothing_to_copy()) {
            copy.a = matrix_arguments(a, ia, ja, desca);
            copy.b = matrix_arguments(b, ib, jb, descb);
        }
        try {
            copy_in_context(context, copy, last_outcome.argument);
        } catch (const WrongArgument& e) {
            last_outcome.argument = e.position();
            throw;
        }
    });
    return last_outcome.code;
}

}  // namespace

int gemr2d_code() noexcept {
    return last_outcome.code;
}

}  // namespace datamover

int datamover_gemr2d_argument(void) {
    return datamover::last_outcome.argument;
}

int datamover_pdgemr2d(int m, int n, const double* a, int ia, int ja, const int* desca, double* b,
                       int ib, int jb, const int* descb, int ctxt) {
    return datamover::gemr2d(8, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt);
}

int datamover_psgemr2d(int m, int n, const float* a, int ia, int ja, const int* desca, float* b,
                       int ib, int jb, const int* descb, int ctxt) {
    return datamover::gemr2d(4, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt);
}

int datamover_pigemr2d(int m, int n, const int* a, int ia, int ja, const int* desca, int* b, int ib,
                       int jb, const int* descb, int ctxt) {
    return datamover::gemr2d(4, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt);
}

int datamover_pcgemr2d(int m, int n, const void* a, int ia, int ja, const int* desca, void* b,
                       int ib, int jb, const int* descb, int ctxt) {
    return datamover::gemr2d(8, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt);
}

int datamover_pzgemr2d(int m, int n, const void* a, int ia, int ja, const int* desca, void* b,
                       int ib, int jb, const int* descb, int ctxt) {
    return datamover::gemr2d(16, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt);
}

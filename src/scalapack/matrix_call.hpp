// SPDX-License-Identifier: BSD-3-Clause
// Conversion of a call with ScaLAPACK's arguments to one of datamover's.
#pragma once

#include "datamover/datamover.h"

namespace datamover {

/// A call, but for what BLACS says.
struct MatrixCall {
    int m, n;
    datamover_matrix a, b;  ///< nothing is looked at where m or n is 0
    datamover_type type;
    int elem_bytes;
    int transposed = 0;
    const datamover_mover_options* options = nullptr;
    char uplo = 0, diag = 0;  ///< of a trapezoid; 0: the whole section
};

/// Moves among the processes of a context. Returns the code, and keeps the wrong argument's
/// position as p?gemr2d's arguments are counted. Collective over the context. Throws
/// invalid_argument, mpi.
int move_in_context(int context, const MatrixCall& call);

/// p?gemr2d and p?trmr2d of elements of `elem_bytes`. Return the code, and keep it with the wrong
/// argument's position as the last call's. Collective over the context.
int gemr2d(int elem_bytes, int m, int n, const void* a, int ia, int ja, const int* desca, void* b,
           int ib, int jb, const int* descb, int context);
int trmr2d(int elem_bytes, const char* uplo, const char* diag, int m, int n, const void* a, int ia,
           int ja, const int* desca, void* b, int ib, int jb, const int* descb, int context);

}  // namespace datamover

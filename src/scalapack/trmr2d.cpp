// SPDX-License-Identifier: BSD-3-Clause
// p?trmr2d: copying trapezoids with ScaLAPACK's arguments.
#include "blacs.hpp"
#include "last_call.hpp"
#include "matrix_call.hpp"

namespace datamover {
namespace {

/// uplo and diag stand before the arguments of p?gemr2d.
int position_in_trmr2d(int position) {
    if (position == 0) return 0;
    return position < 100 ? position + 2 : position + 200;
}

bool is_one_of(char letter, const char* letters) {
    return letter == letters[0] || letter == letters[1] || letter == letters[2] ||
           letter == letters[3];
}

}  // namespace

int trmr2d(int elem_bytes, const char* uplo, const char* diag, int m, int n, const void* a, int ia,
           int ja, const int* desca, void* b, int ib, int jb, const int* descb, int context) {
    return remembered([&] {
        MatrixCall call{m,
                        n,
                        matrix_here(a, ia, ja, desca),
                        matrix_here(b, ib, jb, descb),
                        DATAMOVER_OPAQUE,
                        elem_bytes};
        call.uplo = uplo ? *uplo : ' ';
        call.diag = diag ? *diag : ' ';
        const int code = move_in_context(context, call);
        int& argument = last_call().argument;
        argument = position_in_trmr2d(argument);
        if (code != 0 && argument == 0)
            argument = !is_one_of(call.uplo, "UuLl") ? 1 : !is_one_of(call.diag, "UuNn") ? 2 : 0;
        return code;
    });
}

}  // namespace datamover

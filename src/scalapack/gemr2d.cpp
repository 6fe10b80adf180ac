// SPDX-License-Identifier: BSD-3-Clause
// p?gemr2d: copying sections with ScaLAPACK's arguments.
#include "blacs.hpp"
#include "datamover/datamover_scalapack.h"
#include "last_call.hpp"
#include "matrix_call.hpp"

namespace datamover {
namespace {

int gemr2d(int elem_bytes, int m, int n, const void* a, int ia, int ja, const int* desca, void* b,
           int ib, int jb, const int* descb, int context) {
    return remembered([&] {
        return move_in_context(context,
                               {m, n, matrix_here(a, ia, ja, desca), matrix_here(b, ib, jb, descb),
                                DATAMOVER_OPAQUE, elem_bytes});
    });
}

}  // namespace
}  // namespace datamover

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

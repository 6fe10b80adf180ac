// SPDX-License-Identifier: BSD-3-Clause
// p?gemr2d: copying sections with ScaLAPACK's arguments.
#include "blacs.hpp"
#include "last_call.hpp"
#include "matrix_call.hpp"

namespace datamover {

int gemr2d(int elem_bytes, int m, int n, const void* a, int ia, int ja, const int* desca, void* b,
           int ib, int jb, const int* descb, int context) {
    return remembered([&] {
        return move_in_context(context,
                               {m, n, matrix_here(a, ia, ja, desca), matrix_here(b, ib, jb, descb),
                                DATAMOVER_OPAQUE, elem_bytes});
    });
}

}  // namespace datamover

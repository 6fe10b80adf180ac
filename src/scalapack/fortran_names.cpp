// SPDX-License-Identifier: BSD-3-Clause
// Which names do Fortran programs call p?gemr2d by, and how do they learn of errors?
// An object of its own, so that a program that does not call them keeps ScaLAPACK's.
#include <array>
#include <cstddef>
#include <cstring>

#include "datamover/datamover_scalapack.h"
#include "datamover/error.hpp"
#include "datamover/scalapack_descriptor.hpp"

// ScaLAPACK's error handler, of the ScaLAPACK that the program is linked with. A program may have
// one of its own.
extern "C" void pxerbla_(const int* context, const char* routine, const int* argument,
                         std::size_t routine_length);

namespace datamover {
namespace {

/// The arguments of a call, as Fortran passes them.
struct Call {
    const int *m, *n, *ia, *ja, *desca, *ib, *jb, *descb, *context;
};

bool makes_sense(const int* descriptor) {
    try {
        std::array<int, 9> entries;
        std::memcpy(entries.data(), descriptor, sizeof entries);
        ScalapackDescriptor::from_entries(entries);
        return true;
    } catch (const Error&) {
        return false;
    }
}

/// The position of the first argument that is wrong with one matrix, 0 where none is. `first` is
/// that of its row; the column and the descriptor follow.
int wrong_matrix_argument(int m, int n, int row, int column, const int* descriptor, int first) {
    if (descriptor[1] < 0) return 0;
    if (!makes_sense(descriptor)) return first + 2;
    if (row < 1 || row - 1 > descriptor[2] - m) return first;
    if (column < 1 || column - 1 > descriptor[3] - n) return first + 1;
    return 0;
}

/// The position of a wrong argument in the call; that of the context where none else is.
int wrong_argument(const Call& c) {
    constexpr int at_ia = 4, at_ib = 8, at_context = 11;
    if (*c.m < 0) return 1;
    if (*c.n < 0) return 2;
    if (const int a = wrong_matrix_argument(*c.m, *c.n, *c.ia, *c.ja, c.desca, at_ia)) return a;
    if (const int b = wrong_matrix_argument(*c.m, *c.n, *c.ib, *c.jb, c.descb, at_ib)) return b;
    return at_context;
}

void report(int code, const char* routine, const Call& call) {
    if (code == 0) return;
    const int argument = wrong_argument(call);
    pxerbla_(call.context, routine, &argument, std::strlen(routine));
}

}  // namespace
}  // namespace datamover

void pdgemr2d_(const int* m, const int* n, const double* a, const int* ia, const int* ja,
               const int* desca, double* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::report(datamover_pdgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt),
                      "PDGEMR2D", {m, n, ia, ja, desca, ib, jb, descb, ictxt});
}

void psgemr2d_(const int* m, const int* n, const float* a, const int* ia, const int* ja,
               const int* desca, float* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::report(datamover_psgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt),
                      "PSGEMR2D", {m, n, ia, ja, desca, ib, jb, descb, ictxt});
}

void pigemr2d_(const int* m, const int* n, const int* a, const int* ia, const int* ja,
               const int* desca, int* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::report(datamover_pigemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt),
                      "PIGEMR2D", {m, n, ia, ja, desca, ib, jb, descb, ictxt});
}

void pcgemr2d_(const int* m, const int* n, const void* a, const int* ia, const int* ja,
               const int* desca, void* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::report(datamover_pcgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt),
                      "PCGEMR2D", {m, n, ia, ja, desca, ib, jb, descb, ictxt});
}

void pzgemr2d_(const int* m, const int* n, const void* a, const int* ia, const int* ja,
               const int* desca, void* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::report(datamover_pzgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt),
                      "PZGEMR2D", {m, n, ia, ja, desca, ib, jb, descb, ictxt});
}

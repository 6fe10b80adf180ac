// SPDX-License-Identifier: BSD-3-Clause
// Which names do Fortran programs call p?gemr2d by, and how do they learn of errors?
// An object of its own, so that a program that does not call them keeps ScaLAPACK's.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "datamover/datamover.h"
#include "datamover/datamover_scalapack.h"
#include "gemr2d.hpp"

// ScaLAPACK's error handler, of the ScaLAPACK that the program is linked with. A program may have
// one of its own.
extern "C" void pxerbla_(const int* context, const char* routine, const int* argument,
                         std::size_t routine_length);

namespace datamover {
namespace {

void report(int code, const char* routine, const int* context) {
    if (code == 0) return;
    const int argument = datamover_gemr2d_argument();
    pxerbla_(context, routine, &argument, std::strlen(routine));
}

}  // namespace
}  // namespace datamover

void datamover_gemr2d_error_(int* code, int* argument, char* text, std::size_t text_length) {
    *code = datamover::gemr2d_code();
    *argument = datamover_gemr2d_argument();
    const char* message = *code == 0 ? "" : datamover_error_message();
    const std::size_t copied = std::min(std::strlen(message), text_length);
    std::memcpy(text, message, copied);
    std::memset(text + copied, ' ', text_length - copied);
}

void pdgemr2d_(const int* m, const int* n, const double* a, const int* ia, const int* ja,
               const int* desca, double* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::report(datamover_pdgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt),
                      "PDGEMR2D", ictxt);
}

void psgemr2d_(const int* m, const int* n, const float* a, const int* ia, const int* ja,
               const int* desca, float* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::report(datamover_psgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt),
                      "PSGEMR2D", ictxt);
}

void pigemr2d_(const int* m, const int* n, const int* a, const int* ia, const int* ja,
               const int* desca, int* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::report(datamover_pigemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt),
                      "PIGEMR2D", ictxt);
}

void pcgemr2d_(const int* m, const int* n, const void* a, const int* ia, const int* ja,
               const int* desca, void* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::report(datamover_pcgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt),
                      "PCGEMR2D", ictxt);
}

void pzgemr2d_(const int* m, const int* n, const void* a, const int* ia, const int* ja,
               const int* desca, void* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::report(datamover_pzgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt),
                      "PZGEMR2D", ictxt);
}

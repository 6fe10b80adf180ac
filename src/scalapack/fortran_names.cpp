// SPDX-License-Identifier: BSD-3-Clause
// Which names do Fortran programs call p?gemr2d by, and how do they learn of errors?
// An object of its own, so that a program that does not call them keeps ScaLAPACK's.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "datamover/datamover.h"
#include "datamover/datamover_scalapack.h"
#include "last_call.hpp"

void datamover_gemr2d_error_(int* code, int* argument, char* text, std::size_t text_length) {
    *code = datamover::last_call().code;
    *argument = datamover_gemr2d_argument();
    const char* message = *code == 0 ? "" : datamover_error_message();
    const std::size_t copied = std::min(std::strlen(message), text_length);
    std::memcpy(text, message, copied);
    std::memset(text + copied, ' ', text_length - copied);
}

void pdgemr2d_(const int* m, const int* n, const double* a, const int* ia, const int* ja,
               const int* desca, double* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::tell_pxerbla(
        datamover_pdgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt), "PDGEMR2D",
        *ictxt);
}

void psgemr2d_(const int* m, const int* n, const float* a, const int* ia, const int* ja,
               const int* desca, float* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::tell_pxerbla(
        datamover_psgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt), "PSGEMR2D",
        *ictxt);
}

void pigemr2d_(const int* m, const int* n, const int* a, const int* ia, const int* ja,
               const int* desca, int* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::tell_pxerbla(
        datamover_pigemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt), "PIGEMR2D",
        *ictxt);
}

void pcgemr2d_(const int* m, const int* n, const void* a, const int* ia, const int* ja,
               const int* desca, void* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::tell_pxerbla(
        datamover_pcgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt), "PCGEMR2D",
        *ictxt);
}

void pzgemr2d_(const int* m, const int* n, const void* a, const int* ia, const int* ja,
               const int* desca, void* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt) {
    datamover::tell_pxerbla(
        datamover_pzgemr2d(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *ictxt), "PZGEMR2D",
        *ictxt);
}

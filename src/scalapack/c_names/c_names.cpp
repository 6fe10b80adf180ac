// SPDX-License-Identifier: BSD-3-Clause
// C names of p?gemr2d and p?trmr2d. A library of its own: a program that means ScaLAPACK's own
// does not link it.
#include <cstring>

#include "datamover/datamover_scalapack.h"

extern "C" void pxerbla_(const int* context, const char* routine, const int* argument,
                         std::size_t routine_length);

namespace {

void report(int code, const char* routine, int context) {
    if (code == 0) return;
    const int argument = datamover_gemr2d_argument();
    pxerbla_(&context, routine, &argument, std::strlen(routine));
}

}  // namespace

void Cpdgemr2d(int m, int n, double* a, int ia, int ja, int* desca, double* b, int ib, int jb,
               int* descb, int ctxt) {
    report(datamover_pdgemr2d(m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt), "PDGEMR2D", ctxt);
}

void Cpsgemr2d(int m, int n, float* a, int ia, int ja, int* desca, float* b, int ib, int jb,
               int* descb, int ctxt) {
    report(datamover_psgemr2d(m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt), "PSGEMR2D", ctxt);
}

void Cpigemr2d(int m, int n, int* a, int ia, int ja, int* desca, int* b, int ib, int jb, int* descb,
               int ctxt) {
    report(datamover_pigemr2d(m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt), "PIGEMR2D", ctxt);
}

void Cpcgemr2d(int m, int n, void* a, int ia, int ja, int* desca, void* b, int ib, int jb,
               int* descb, int ctxt) {
    report(datamover_pcgemr2d(m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt), "PCGEMR2D", ctxt);
}

void Cpzgemr2d(int m, int n, void* a, int ia, int ja, int* desca, void* b, int ib, int jb,
               int* descb, int ctxt) {
    report(datamover_pzgemr2d(m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt), "PZGEMR2D", ctxt);
}

void Cpdtrmr2d(char* uplo, char* diag, int m, int n, double* a, int ia, int ja, int* desca,
               double* b, int ib, int jb, int* descb, int ctxt) {
    report(datamover_pdtrmr2d(uplo, diag, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt),
           "PDTRMR2D", ctxt);
}

void Cpstrmr2d(char* uplo, char* diag, int m, int n, float* a, int ia, int ja, int* desca, float* b,
               int ib, int jb, int* descb, int ctxt) {
    report(datamover_pstrmr2d(uplo, diag, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt),
           "PSTRMR2D", ctxt);
}

void Cpitrmr2d(char* uplo, char* diag, int m, int n, int* a, int ia, int ja, int* desca, int* b,
               int ib, int jb, int* descb, int ctxt) {
    report(datamover_pitrmr2d(uplo, diag, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt),
           "PITRMR2D", ctxt);
}

void Cpctrmr2d(char* uplo, char* diag, int m, int n, void* a, int ia, int ja, int* desca, void* b,
               int ib, int jb, int* descb, int ctxt) {
    report(datamover_pctrmr2d(uplo, diag, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt),
           "PCTRMR2D", ctxt);
}

void Cpztrmr2d(char* uplo, char* diag, int m, int n, void* a, int ia, int ja, int* desca, void* b,
               int ib, int jb, int* descb, int ctxt) {
    report(datamover_pztrmr2d(uplo, diag, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt),
           "PZTRMR2D", ctxt);
}

// SPDX-License-Identifier: BSD-3-Clause
// Fortran names of p?gemr2d and p?trmr2d, and their errors.
// An object of its own, so that a program that does not call them keeps ScaLAPACK's.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "blacs_integers.hpp"
#include "datamover/datamover.h"
#include "datamover/datamover_scalapack.h"
#include "last_call.hpp"

using datamover::BlacsInt;
using datamover::Entries;
using datamover::narrow;
using datamover::tell_pxerbla;

namespace {

// Integers are moved as what has as many bytes.
#ifdef DATAMOVER_ILP64
using Moved = double;
constexpr auto move_integers = datamover_pdgemr2d;
constexpr auto move_trapezoid_of_integers = datamover_pdtrmr2d;
#else
using Moved = int;
constexpr auto move_integers = datamover_pigemr2d;
constexpr auto move_trapezoid_of_integers = datamover_pitrmr2d;
#endif
const Moved* as_moved(const BlacsInt* elements) {
    return reinterpret_cast<const Moved*>(elements);
}
Moved* as_moved(BlacsInt* elements) {
    return reinterpret_cast<Moved*>(elements);
}

}  // namespace

extern "C" {
DATAMOVER_PUBLIC_BEGIN

void datamover_gemr2d_error_(BlacsInt* code, BlacsInt* argument, char* text,
                             std::size_t text_length) {
    *code = datamover::last_call().code;
    *argument = datamover_gemr2d_argument();
    const char* message = *code == 0 ? "" : datamover_error_message();
    const std::size_t copied = std::min(std::strlen(message), text_length);
    std::memcpy(text, message, copied);
    std::memset(text + copied, ' ', text_length - copied);
}

void pdgemr2d_(const BlacsInt* m, const BlacsInt* n, const double* a, const BlacsInt* ia,
               const BlacsInt* ja, const BlacsInt* desca, double* b, const BlacsInt* ib,
               const BlacsInt* jb, const BlacsInt* descb, const BlacsInt* ictxt) {
    tell_pxerbla(
        datamover_pdgemr2d(narrow(*m), narrow(*n), a, narrow(*ia), narrow(*ja), Entries(desca), b,
                           narrow(*ib), narrow(*jb), Entries(descb), narrow(*ictxt)),
        "PDGEMR2D", narrow(*ictxt));
}

void pdtrmr2d_(const char* uplo, const char* diag, const BlacsInt* m, const BlacsInt* n,
               const double* a, const BlacsInt* ia, const BlacsInt* ja, const BlacsInt* desca,
               double* b, const BlacsInt* ib, const BlacsInt* jb, const BlacsInt* descb,
               const BlacsInt* ictxt) {
    tell_pxerbla(datamover_pdtrmr2d(uplo, diag, narrow(*m), narrow(*n), a, narrow(*ia), narrow(*ja),
                                    Entries(desca), b, narrow(*ib), narrow(*jb), Entries(descb),
                                    narrow(*ictxt)),
                 "PDTRMR2D", narrow(*ictxt));
}

void psgemr2d_(const BlacsInt* m, const BlacsInt* n, const float* a, const BlacsInt* ia,
               const BlacsInt* ja, const BlacsInt* desca, float* b, const BlacsInt* ib,
               const BlacsInt* jb, const BlacsInt* descb, const BlacsInt* ictxt) {
    tell_pxerbla(
        datamover_psgemr2d(narrow(*m), narrow(*n), a, narrow(*ia), narrow(*ja), Entries(desca), b,
                           narrow(*ib), narrow(*jb), Entries(descb), narrow(*ictxt)),
        "PSGEMR2D", narrow(*ictxt));
}

void pstrmr2d_(const char* uplo, const char* diag, const BlacsInt* m, const BlacsInt* n,
               const float* a, const BlacsInt* ia, const BlacsInt* ja, const BlacsInt* desca,
               float* b, const BlacsInt* ib, const BlacsInt* jb, const BlacsInt* descb,
               const BlacsInt* ictxt) {
    tell_pxerbla(datamover_pstrmr2d(uplo, diag, narrow(*m), narrow(*n), a, narrow(*ia), narrow(*ja),
                                    Entries(desca), b, narrow(*ib), narrow(*jb), Entries(descb),
                                    narrow(*ictxt)),
                 "PSTRMR2D", narrow(*ictxt));
}

void pigemr2d_(const BlacsInt* m, const BlacsInt* n, const BlacsInt* a, const BlacsInt* ia,
               const BlacsInt* ja, const BlacsInt* desca, BlacsInt* b, const BlacsInt* ib,
               const BlacsInt* jb, const BlacsInt* descb, const BlacsInt* ictxt) {
    tell_pxerbla(
        move_integers(narrow(*m), narrow(*n), as_moved(a), narrow(*ia), narrow(*ja), Entries(desca),
                      as_moved(b), narrow(*ib), narrow(*jb), Entries(descb), narrow(*ictxt)),
        "PIGEMR2D", narrow(*ictxt));
}

void pitrmr2d_(const char* uplo, const char* diag, const BlacsInt* m, const BlacsInt* n,
               const BlacsInt* a, const BlacsInt* ia, const BlacsInt* ja, const BlacsInt* desca,
               BlacsInt* b, const BlacsInt* ib, const BlacsInt* jb, const BlacsInt* descb,
               const BlacsInt* ictxt) {
    tell_pxerbla(
        move_trapezoid_of_integers(uplo, diag, narrow(*m), narrow(*n), as_moved(a), narrow(*ia),
                                   narrow(*ja), Entries(desca), as_moved(b), narrow(*ib),
                                   narrow(*jb), Entries(descb), narrow(*ictxt)),
        "PITRMR2D", narrow(*ictxt));
}

void pcgemr2d_(const BlacsInt* m, const BlacsInt* n, const void* a, const BlacsInt* ia,
               const BlacsInt* ja, const BlacsInt* desca, void* b, const BlacsInt* ib,
               const BlacsInt* jb, const BlacsInt* descb, const BlacsInt* ictxt) {
    tell_pxerbla(
        datamover_pcgemr2d(narrow(*m), narrow(*n), a, narrow(*ia), narrow(*ja), Entries(desca), b,
                           narrow(*ib), narrow(*jb), Entries(descb), narrow(*ictxt)),
        "PCGEMR2D", narrow(*ictxt));
}

void pctrmr2d_(const char* uplo, const char* diag, const BlacsInt* m, const BlacsInt* n,
               const void* a, const BlacsInt* ia, const BlacsInt* ja, const BlacsInt* desca,
               void* b, const BlacsInt* ib, const BlacsInt* jb, const BlacsInt* descb,
               const BlacsInt* ictxt) {
    tell_pxerbla(datamover_pctrmr2d(uplo, diag, narrow(*m), narrow(*n), a, narrow(*ia), narrow(*ja),
                                    Entries(desca), b, narrow(*ib), narrow(*jb), Entries(descb),
                                    narrow(*ictxt)),
                 "PCTRMR2D", narrow(*ictxt));
}

void pzgemr2d_(const BlacsInt* m, const BlacsInt* n, const void* a, const BlacsInt* ia,
               const BlacsInt* ja, const BlacsInt* desca, void* b, const BlacsInt* ib,
               const BlacsInt* jb, const BlacsInt* descb, const BlacsInt* ictxt) {
    tell_pxerbla(
        datamover_pzgemr2d(narrow(*m), narrow(*n), a, narrow(*ia), narrow(*ja), Entries(desca), b,
                           narrow(*ib), narrow(*jb), Entries(descb), narrow(*ictxt)),
        "PZGEMR2D", narrow(*ictxt));
}

void pztrmr2d_(const char* uplo, const char* diag, const BlacsInt* m, const BlacsInt* n,
               const void* a, const BlacsInt* ia, const BlacsInt* ja, const BlacsInt* desca,
               void* b, const BlacsInt* ib, const BlacsInt* jb, const BlacsInt* descb,
               const BlacsInt* ictxt) {
    tell_pxerbla(datamover_pztrmr2d(uplo, diag, narrow(*m), narrow(*n), a, narrow(*ia), narrow(*ja),
                                    Entries(desca), b, narrow(*ib), narrow(*jb), Entries(descb),
                                    narrow(*ictxt)),
                 "PZTRMR2D", narrow(*ictxt));
}

DATAMOVER_PUBLIC_END
}

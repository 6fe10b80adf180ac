/* SPDX-License-Identifier: BSD-3-Clause */
/* Replacements for ScaLAPACK's Cp?gemr2d. */
#ifndef DATAMOVER_DATAMOVER_SCALAPACK_H
#define DATAMOVER_DATAMOVER_SCALAPACK_H

#include <datamover/export.h>
#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
DATAMOVER_PUBLIC_BEGIN

/* sub(B) = sub(A): A(ia : ia + m - 1, ja : ja + n - 1) goes to B(ib : ib + m - 1, jb : jb + n - 1),
 * 1-based, with the arguments of ScaLAPACK's Cp?gemr2d, between matrices on any two grids of
 * processes of the BLACS context `ctxt`. desca[1] (descb[1]) is -1 on processes outside the grid of
 * A (B), where nothing else of the descriptor and the matrix is looked at. As in ScaLAPACK, DTYPE
 * is not looked at, LLD may be 0 where a process holds no rows, a matrix may be NULL where it holds
 * nothing of the section, and nothing else is looked at where m or n is 0.
 *
 * Collective over `ctxt`. Returns 0 or one of the codes of datamover.h, the same on all processes;
 * then nothing has moved, and datamover_error_message() says which entry of which matrix is wrong
 * on which process. Arguments that differ between the processes of a matrix (m, n: between any) are
 * such an error. A call that repeats one of the last, also in its addresses, does not plan again
 * (see datamover_gemr2d), in a context made anew of the same processes either: what is kept lives
 * until MPI ends.
 *
 * In the library datamover_scalapack, which calls the BLACS that the program is linked with: link
 * datamover_scalapack, datamover, then ScaLAPACK, all of one MPI. */
int datamover_pdgemr2d(int m, int n, const double* a, int ia, int ja, const int* desca, double* b,
                       int ib, int jb, const int* descb, int ctxt);
int datamover_psgemr2d(int m, int n, const float* a, int ia, int ja, const int* desca, float* b,
                       int ib, int jb, const int* descb, int ctxt);
int datamover_pigemr2d(int m, int n, const int* a, int ia, int ja, const int* desca, int* b, int ib,
                       int jb, const int* descb, int ctxt);
/* Complex numbers: pairs of float, pairs of double. */
int datamover_pcgemr2d(int m, int n, const void* a, int ia, int ja, const int* desca, void* b,
                       int ib, int jb, const int* descb, int ctxt);
int datamover_pzgemr2d(int m, int n, const void* a, int ia, int ja, const int* desca, void* b,
                       int ib, int jb, const int* descb, int ctxt);

/* The same for a trapezoid, as ScaLAPACK's Cp?trmr2d: of the sections what is above the diagonal
 * (`uplo` "U") or below it ("L"), with the diagonal (`diag` "N") or without ("U"), as
 * datamover_trapezoid_move says where the diagonal is. Positions of wrong arguments are counted
 * from uplo on: 805 for MB of A. */
int datamover_pdtrmr2d(const char* uplo, const char* diag, int m, int n, const double* a, int ia,
                       int ja, const int* desca, double* b, int ib, int jb, const int* descb,
                       int ctxt);
int datamover_pstrmr2d(const char* uplo, const char* diag, int m, int n, const float* a, int ia,
                       int ja, const int* desca, float* b, int ib, int jb, const int* descb,
                       int ctxt);
int datamover_pitrmr2d(const char* uplo, const char* diag, int m, int n, const int* a, int ia,
                       int ja, const int* desca, int* b, int ib, int jb, const int* descb,
                       int ctxt);
int datamover_pctrmr2d(const char* uplo, const char* diag, int m, int n, const void* a, int ia,
                       int ja, const int* desca, void* b, int ib, int jb, const int* descb,
                       int ctxt);
int datamover_pztrmr2d(const char* uplo, const char* diag, int m, int n, const void* a, int ia,
                       int ja, const int* desca, void* b, int ib, int jb, const int* descb,
                       int ctxt);

/* Drops the movers that are kept for calls that repeat earlier ones, of all contexts. How much is
 * kept says datamover_matrix_cache_limit, or the environment's DATAMOVER_MATRIX_CACHE: a number of
 * movers. All processes call at the same place of the program. Local; returns 0 or a code. */
int datamover_scalapack_cache_drop(void);

/* Which argument this thread's last call was refused for, the same on all processes: its position
 * from 1 on, or 100 i + j for entry j (from 1 on) of the descriptor that is argument i: 605 for MB
 * of A. 0 where the call succeeded, or no argument is at fault. */
int datamover_gemr2d_argument(void);

/* Fortran's names take 64-bit integers in the library datamover_scalapack_ilp64, which has no
 * header. */
#ifndef DATAMOVER_ILP64
/* The same by the names that Fortran calls: with this library before ScaLAPACK on the linker's
 * line, a program's `call pdgemr2d(...)` comes here unchanged. An error goes to the PXERBLA of the
 * program's ScaLAPACK, or the program's own, with the position of the wrong argument as
 * datamover_gemr2d_argument tells it. */
void pdgemr2d_(const int* m, const int* n, const double* a, const int* ia, const int* ja,
               const int* desca, double* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt);
void psgemr2d_(const int* m, const int* n, const float* a, const int* ia, const int* ja,
               const int* desca, float* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt);
void pigemr2d_(const int* m, const int* n, const int* a, const int* ia, const int* ja,
               const int* desca, int* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt);
void pcgemr2d_(const int* m, const int* n, const void* a, const int* ia, const int* ja,
               const int* desca, void* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt);
void pzgemr2d_(const int* m, const int* n, const void* a, const int* ia, const int* ja,
               const int* desca, void* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt);
void pdtrmr2d_(const char* uplo, const char* diag, const int* m, const int* n, const double* a,
               const int* ia, const int* ja, const int* desca, double* b, const int* ib,
               const int* jb, const int* descb, const int* ictxt);
void pstrmr2d_(const char* uplo, const char* diag, const int* m, const int* n, const float* a,
               const int* ia, const int* ja, const int* desca, float* b, const int* ib,
               const int* jb, const int* descb, const int* ictxt);
void pitrmr2d_(const char* uplo, const char* diag, const int* m, const int* n, const int* a,
               const int* ia, const int* ja, const int* desca, int* b, const int* ib, const int* jb,
               const int* descb, const int* ictxt);
void pctrmr2d_(const char* uplo, const char* diag, const int* m, const int* n, const void* a,
               const int* ia, const int* ja, const int* desca, void* b, const int* ib,
               const int* jb, const int* descb, const int* ictxt);
void pztrmr2d_(const char* uplo, const char* diag, const int* m, const int* n, const void* a,
               const int* ia, const int* ja, const int* desca, void* b, const int* ib,
               const int* jb, const int* descb, const int* ictxt);
#endif
/* The names that C programs call, of the library datamover_scalapack_c, else alike. */
void Cpdgemr2d(int m, int n, double* a, int ia, int ja, int* desca, double* b, int ib, int jb,
               int* descb, int ctxt);
void Cpsgemr2d(int m, int n, float* a, int ia, int ja, int* desca, float* b, int ib, int jb,
               int* descb, int ctxt);
void Cpigemr2d(int m, int n, int* a, int ia, int ja, int* desca, int* b, int ib, int jb, int* descb,
               int ctxt);
void Cpcgemr2d(int m, int n, void* a, int ia, int ja, int* desca, void* b, int ib, int jb,
               int* descb, int ctxt);
void Cpzgemr2d(int m, int n, void* a, int ia, int ja, int* desca, void* b, int ib, int jb,
               int* descb, int ctxt);
void Cpdtrmr2d(char* uplo, char* diag, int m, int n, double* a, int ia, int ja, int* desca,
               double* b, int ib, int jb, int* descb, int ctxt);
void Cpstrmr2d(char* uplo, char* diag, int m, int n, float* a, int ia, int ja, int* desca, float* b,
               int ib, int jb, int* descb, int ctxt);
void Cpitrmr2d(char* uplo, char* diag, int m, int n, int* a, int ia, int ja, int* desca, int* b,
               int ib, int jb, int* descb, int ctxt);
void Cpctrmr2d(char* uplo, char* diag, int m, int n, void* a, int ia, int ja, int* desca, void* b,
               int ib, int jb, int* descb, int ctxt);
void Cpztrmr2d(char* uplo, char* diag, int m, int n, void* a, int ia, int ja, int* desca, void* b,
               int ib, int jb, int* descb, int ctxt);

#ifndef DATAMOVER_ILP64
/* sub(C) = beta sub(C) + alpha sub(A)^T, as PBLAS' p?tran: C(ic : ic + m - 1, jc : jc + n - 1) and
 * A(ia : ia + n - 1, ja : ja + m - 1), of one BLACS context. tranc conjugates. By the names that
 * Fortran calls; `alpha` and `beta` point to numbers of the matrices' type. Where beta is 0, C is
 * not read. Collective over the context. Calls with alpha = 0, with a matrix that is not a dense
 * one (DTYPE 1) or with one that each process has a copy of (RSRC or CSRC -1) go to the PBLAS that
 * is linked after this library. An error goes to PXERBLA. */
void pstran_(const int* m, const int* n, const float* alpha, const float* a, const int* ia,
             const int* ja, const int* desca, const float* beta, float* c, const int* ic,
             const int* jc, const int* descc);
void pdtran_(const int* m, const int* n, const double* alpha, const double* a, const int* ia,
             const int* ja, const int* desca, const double* beta, double* c, const int* ic,
             const int* jc, const int* descc);
void pctranu_(const int* m, const int* n, const void* alpha, const void* a, const int* ia,
              const int* ja, const int* desca, const void* beta, void* c, const int* ic,
              const int* jc, const int* descc);
void pztranu_(const int* m, const int* n, const void* alpha, const void* a, const int* ia,
              const int* ja, const int* desca, const void* beta, void* c, const int* ic,
              const int* jc, const int* descc);
void pctranc_(const int* m, const int* n, const void* alpha, const void* a, const int* ia,
              const int* ja, const int* desca, const void* beta, void* c, const int* ic,
              const int* jc, const int* descc);
void pztranc_(const int* m, const int* n, const void* alpha, const void* a, const int* ia,
              const int* ja, const int* desca, const void* beta, void* c, const int* ic,
              const int* jc, const int* descc);
#endif

/* The layout of the matrix that a descriptor describes, for plans and movers between communicators
 * of the context's processes: ranks are those of the context, process (i, j) of its grid being as
 * BLACS numbers it. `comm` (may be NULL) is set to that communicator, the library's own: it is not
 * freed. Collective over the context desca[1], where all processes are in the grid. */
struct datamover_layout;
int datamover_layout_from_blacs(struct datamover_layout** layout, const int descriptor[9],
                                MPI_Comm* comm);

#ifndef DATAMOVER_ILP64
/* From Fortran, after a call: its code (0: it succeeded), the wrong argument's position, and the
 * message, filled up with blanks:
 *
 *     character(200) :: text
 *     call datamover_gemr2d_error(code, argument, text)
 */
void datamover_gemr2d_error_(int* code, int* argument, char* text, size_t text_length);
#endif

DATAMOVER_PUBLIC_END
#ifdef __cplusplus
}
#endif

#endif

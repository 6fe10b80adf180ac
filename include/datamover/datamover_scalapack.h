/* SPDX-License-Identifier: BSD-3-Clause */
/* Replacements for ScaLAPACK's Cp?gemr2d. */
#ifndef DATAMOVER_DATAMOVER_SCALAPACK_H
#define DATAMOVER_DATAMOVER_SCALAPACK_H

#include <datamover/export.h>
#include <datamover/generated/scalapack_names.h>
#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
DATAMOVER_PUBLIC_BEGIN

/* Copy sub(B) = sub(A) with the arguments of ScaLAPACK's Cp?gemr2d: A(ia : ia + m - 1, ja : ja +
 * n - 1) is copied to B(ib : ib + m - 1, jb : jb + n - 1), 1-based, between matrices on any two
 * process grids of the BLACS context `ctxt`. desca[1] (descb[1]) is -1 on processes outside the
 * grid of A (B); the rest of the descriptor and the matrix are ignored there. As in ScaLAPACK,
 * DTYPE is ignored, LLD may be 0 if a process holds no rows, a matrix may be NULL if it holds
 * nothing of the section, and all other arguments are ignored if m or n is 0.
 *
 * Returns 0 or one of the codes of datamover.h, the same on all processes. After an error nothing
 * has been moved, and datamover_error_message() names the wrong entry, its matrix and its process.
 * It is an error if arguments differ between the processes of a matrix (m, n: between any). A call
 * that repeats a recent one, including its addresses, does not plan again (see datamover_gemr2d),
 * also in a new context of the same processes: cached movers exist until MPI ends. Collective over
 * `ctxt`.
 *
 * The functions are in the library datamover_scalapack, which calls the BLACS that the program is
 * linked with. Link datamover_scalapack, datamover, then ScaLAPACK, all of one MPI.
 *
 * generated/scalapack_names.h declares datamover_psgemr2d (float), datamover_pigemr2d (int),
 * datamover_pcgemr2d and datamover_pzgemr2d (void: pairs of float, pairs of double), and likewise
 * the other types of all functions below. */
int datamover_pdgemr2d(int m, int n, const double* a, int ia, int ja, const int* desca, double* b,
                       int ib, int jb, const int* descb, int ctxt);

/* Copy a trapezoid, as ScaLAPACK's Cp?trmr2d: the part of the sections above the diagonal (`uplo`
 * "U") or below it ("L"), with the diagonal (`diag` "N") or without ("U"). The diagonal is that of
 * datamover_trapezoid_move. Positions of wrong arguments are counted from uplo: 805 for MB of A.
 * Otherwise as datamover_pdgemr2d. */
int datamover_pdtrmr2d(const char* uplo, const char* diag, int m, int n, const double* a, int ia,
                       int ja, const int* desca, double* b, int ib, int jb, const int* descb,
                       int ctxt);

/* Drop the movers that are cached for repeated calls, of all contexts. The cache size is set by
 * datamover_matrix_cache_limit, or by the environment variable DATAMOVER_MATRIX_CACHE: a number of
 * movers. Returns 0 or a code. All processes call it at the same point of the program. Local. */
int datamover_scalapack_cache_drop(void);

/* Return the argument that caused this thread's last call to fail, the same on all processes: its
 * position from 1, or 100 i + j for entry j (from 1) of the descriptor that is argument i: 605 for
 * MB of A. 0 if the call succeeded, or if no argument caused the error. */
int datamover_gemr2d_argument(void);

/* With 64-bit integers, the Fortran names are in the library datamover_scalapack_ilp64, which has
 * no header. */
#ifndef DATAMOVER_ILP64
/* The functions above under their Fortran names. With this library before ScaLAPACK on the linker's
 * command line, a program's `call pdgemr2d(...)` calls it without changes. An error calls PXERBLA,
 * that of the program's ScaLAPACK or the program's own, with the position of the wrong argument as
 * in datamover_gemr2d_argument. */
void pdgemr2d_(const int* m, const int* n, const double* a, const int* ia, const int* ja,
               const int* desca, double* b, const int* ib, const int* jb, const int* descb,
               const int* ictxt);
void pdtrmr2d_(const char* uplo, const char* diag, const int* m, const int* n, const double* a,
               const int* ia, const int* ja, const int* desca, double* b, const int* ib,
               const int* jb, const int* descb, const int* ictxt);
#endif
/* The functions above under their C names, in the library datamover_scalapack_c. */
void Cpdgemr2d(int m, int n, double* a, int ia, int ja, int* desca, double* b, int ib, int jb,
               int* descb, int ctxt);
void Cpdtrmr2d(char* uplo, char* diag, int m, int n, double* a, int ia, int ja, int* desca,
               double* b, int ib, int jb, int* descb, int ctxt);

#ifndef DATAMOVER_ILP64
/* Compute sub(C) = beta sub(C) + alpha sub(A)^T, as PBLAS' p?tran: C(ic : ic + m - 1, jc : jc +
 * n - 1) and A(ia : ia + n - 1, ja : ja + m - 1), of one BLACS context, under their Fortran names.
 * tranc conjugates. `alpha` and `beta` point to numbers of the matrices' type. If beta is 0, C is
 * not read. Calls with alpha = 0, with a matrix that is not dense (DTYPE 1) or with one that is
 * replicated on each process (RSRC or CSRC -1) are passed to the PBLAS that is linked after this
 * library. An error calls PXERBLA. Collective over the context. */
void pstran_(const int* m, const int* n, const float* alpha, const float* a, const int* ia,
             const int* ja, const int* desca, const float* beta, float* c, const int* ic,
             const int* jc, const int* descc);
void pctranu_(const int* m, const int* n, const void* alpha, const void* a, const int* ia,
              const int* ja, const int* desca, const void* beta, void* c, const int* ic,
              const int* jc, const int* descc);
void pctranc_(const int* m, const int* n, const void* alpha, const void* a, const int* ia,
              const int* ja, const int* desca, const void* beta, void* c, const int* ic,
              const int* jc, const int* descc);
#endif

/* Make the layout of the matrix that a descriptor describes, for plans and movers between
 * communicators of the context's processes. Ranks are those of the context; process (i, j) of its
 * grid has its BLACS number. `comm` (may be NULL) is set to that communicator, which the library
 * owns: do not free it. All processes of the context desca[1] must be in the grid. Collective over
 * that context. */
struct datamover_layout;
int datamover_layout_from_blacs(const int descriptor[9], MPI_Comm* comm,
                                struct datamover_layout** layout);

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

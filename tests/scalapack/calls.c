/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a program that does not use datamover. It is linked with ScaLAPACK alone, and LD_PRELOAD
 * loads the drop-in. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "blacs.h"

void Cpdgemr2d(int m, int n, double* a, int ia, int ja, int* desca, double* b, int ib, int jb,
               int* descb, int ctxt);
void pdgemr2d_(const int* m, const int* n, const double* a, const int* ia, const int* ja,
               const int* desca, double* b, const int* ib, const int* jb, const int* descb,
               const int* ctxt);
void pdtran_(const int* m, const int* n, const double* alpha, const double* a, const int* ia,
             const int* ja, const int* desca, const double* beta, double* c, const int* ic,
             const int* jc, const int* descc);

static double value(int i, int j) {
    return 100 * i + j;
}

/* Columns of an n x n matrix in a row of processes, dealt out one by one. */
static int holds_columns(const double* b, int n, int rank, int nprocs, int transposed) {
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < n; ++i)
            if (j % nprocs == rank &&
                b[i + j / nprocs * n] != (transposed ? value(j, i) : value(i, j)))
                return 0;
    return 1;
}

int main(int argc, char** argv) {
    enum { n = 10 };
    const int one = 1, order = n;
    const double alpha = 1, beta = 0;
    int rank, nprocs, every = -1, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    Cblacs_get(0, 0, &every);
    Cblacs_gridinit(&every, "Row", 1, nprocs);
    /* In blocks of columns, and column by column. */
    const int block = (n + nprocs - 1) / nprocs;
    int desca[9] = {1, every, n, n, n, block, 0, 0, n};
    int descb[9] = {1, every, n, n, n, 1, 0, 0, n};
    double* a = calloc((size_t)n * n, sizeof *a);
    double* b = calloc((size_t)n * n, sizeof *b);
    for (int j = rank * block; j < (rank + 1) * block && j < n; ++j)
        for (int i = 0; i < n; ++i) a[i + (j - rank * block) * n] = value(i, j);
    for (int repeat = 0; repeat < 3; ++repeat)
        pdgemr2d_(&order, &order, a, &one, &one, desca, b, &one, &one, descb, &every);
    wrong += !holds_columns(b, n, rank, nprocs, 0);
    for (int i = 0; i < n * n; ++i) b[i] = -1;
    Cpdgemr2d(n, n, a, 1, 1, desca, b, 1, 1, descb, every);
    wrong += !holds_columns(b, n, rank, nprocs, 0);
    pdtran_(&order, &order, &alpha, a, &one, &one, desca, &beta, b, &one, &one, descb);
    wrong += !holds_columns(b, n, rank, nprocs, 1);
    if (wrong) fprintf(stderr, "process %d: %d wrong\n", rank, wrong);
    free(a);
    free(b);
    MPI_Finalize();
    return wrong;
}

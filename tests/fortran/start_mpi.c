/* SPDX-License-Identifier: BSD-3-Clause */
/* Start of MPI for Fortran tests, if the MPI has no Fortran modules. */
#include <mpi.h>
#include <stddef.h>

void test_start_mpi(int* comm, int* rank, int* nprocs);
int test_sum(int comm, int value);
void test_stop_mpi(void);

void test_start_mpi(int* comm, int* rank, int* nprocs) {
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, nprocs);
    *comm = (int)MPI_Comm_c2f(MPI_COMM_WORLD);
}

int test_sum(int comm, int value) {
    int sum = 0;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_Comm_f2c((MPI_Fint)comm));
    return sum;
}

void test_stop_mpi(void) {
    MPI_Finalize();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* How does a C program take every element to the process that is named for it?
 *
 * Source: M. Hofmann, G. Ruenger, Fine-grained Data Distribution Operations for Particle Codes,
 * section 3 (MPI_Alltoall_specific). All functions are collective over `comm` and return
 * MPI_SUCCESS (0) or a datamover_code (datamover/datamover.h), the same on all processes;
 * datamover_error_message() says more. Elements arrive in stable order: by source process, then as
 * they were there. */
#ifndef DATAMOVER_DISTRIBUTE_H
#define DATAMOVER_DISTRIBUTE_H

#include <datamover/export.h>
#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
DATAMOVER_PUBLIC_BEGIN

/* Sends each of `sendcount` elements to the process whose rank stands, as an int, `tproc_pos` bytes
 * after the element's start; -1 drops it. Writes what arrives to `recvbuf`, which has room for
 * `recvcount` elements, and its number to `received`. Elements of `sendtype` and `recvtype` are as
 * many bytes as the type's extent, holes included; both extents must be the same.
 *
 * MPI_IN_PLACE as `sendbuf`: the elements are in `recvbuf` and are replaced there (`sendtype` is
 * not looked at, `sendcount` says how many); all processes do so or none. Arrivals then take the
 * places of elements that left, and follow at the end: the order among those that stay is kept, but
 * not the stable order.
 *
 * Where `recvcount` is too small on any process nothing moves, `sendbuf` is as it was, the result
 * is DATAMOVER_MISMATCH everywhere, and `received` is the number of elements that this process
 * would have received. A rank outside the communicator is DATAMOVER_OUT_OF_RANGE everywhere;
 * nothing moves. */
int datamover_alltoall_specific(void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                                int recvcount, MPI_Datatype recvtype, int tproc_pos, int* received,
                                MPI_Comm comm);

/* The same with 64-bit counts. */
int datamover_alltoall_specific_c(void* sendbuf, int64_t sendcount, MPI_Datatype sendtype,
                                  void* recvbuf, int64_t recvcount, MPI_Datatype recvtype,
                                  int64_t tproc_pos, int64_t* received, MPI_Comm comm);

/* Tells the target rank of an element, -1 for none; called once per element, in order. */
typedef int (*datamover_target_function)(const void* element, void* context);

/* The same with targets from a function instead of a place in the element. */
int datamover_alltoall_specific_function(void* sendbuf, int64_t sendcount, MPI_Datatype sendtype,
                                         void* recvbuf, int64_t recvcount, MPI_Datatype recvtype,
                                         datamover_target_function target, void* context,
                                         int64_t* received, MPI_Comm comm);

DATAMOVER_PUBLIC_END
#ifdef __cplusplus
}
#endif

#endif

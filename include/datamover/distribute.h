/* SPDX-License-Identifier: BSD-3-Clause */
/* Distributions in C: every element is sent to the process that is named for it.
 *
 * Use one call, or a distribution that is made once and executed any number of times, with any
 * number of columns, also while the program computes, and in reverse.
 *
 * Source: M. Hofmann, G. Ruenger, Fine-grained Data Distribution Operations for Particle Codes,
 * section 3 (MPI_Alltoall_specific). All functions return MPI_SUCCESS (0) or a datamover_code
 * (datamover/datamover.h), and are collective where nothing else is said: the code is then the same
 * on all processes. datamover_error_message() says more. Elements arrive in stable order: by source
 * process, then as they were there. */
#ifndef DATAMOVER_DISTRIBUTE_H
#define DATAMOVER_DISTRIBUTE_H

#include <datamover/datamover.h>
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

/* ------------------------------------------------------------------ distributions */

/* A plan that takes every element of this process to the processes of its targets. */
typedef struct datamover_distribution datamover_distribution;

/* Where the ranks lie to which this process's elements go: integers, read once; -1 drops. */
typedef struct datamover_targets {
    int64_t elems;            /* elements that this process gives */
    int64_t targets_per_elem; /* each goes to so many processes, whose ranks lie together; 0: one */
    const void* data;         /* not looked at for no elements */
    datamover_type type;      /* DATAMOVER_INT32, DATAMOVER_INT64 or another type of integers */
    int64_t stride_bytes;     /* from rank to rank; 0: they lie one behind the other */
} datamover_targets;

/* What may be said of a distribution; zeros and NULLs stand for the defaults. */
typedef struct datamover_distribution_options {
    int64_t max_bytes;  /* extra memory that a move may take on this process; 0: no limit */
    const char* method; /* "auto" (NULL), "partition", "alltoallv", "alltoallw", "sendrecv",
                           "sort"; another word is DATAMOVER_INVALID_ARGUMENT */
    int any_order;      /* not 0: elements may arrive in an order that the method chooses */
} datamover_distribution_options;

/* An array of elements that is moved: its n-th element belongs to the n-th target. */
typedef struct datamover_column {
    const void* data;     /* not looked at for no elements */
    int64_t elems;        /* as many as the distribution gives, or has received for reverse */
    int64_t elem_bytes;   /* above 0 */
    int64_t stride_bytes; /* from element to element; 0: they lie one behind the other */
    datamover_type type;  /* what reverse combines; an element may be several numbers of it */
} datamover_column;

/* Memory for the elements of a column that arrive, one behind the other. */
typedef struct datamover_room {
    void* data;
    int64_t elems; /* at least as many as arrive */
} datamover_room;

/* Reads the targets and exchanges counts; the targets are not needed afterwards. `options` may be
 * NULL. DATAMOVER_OUT_OF_RANGE for a rank outside the communicator. Collective over `comm`. O(elems
 * + processes). */
int datamover_distribution_new(datamover_distribution** distribution, MPI_Comm comm,
                               const datamover_targets* targets,
                               const datamover_distribution_options* options);
/* The numbers of elements that this process gives, and that arrive here. Local. */
int datamover_distribution_elems(const datamover_distribution* distribution, int64_t* given,
                                 int64_t* received);

/* Begins to move all columns, columns[k] into results[k], by "partition" in stable order, without
 * waiting for other processes. Until wait returns the program writes neither columns nor results.
 * What does not fit on any process (DATAMOVER_MISMATCH where a result is too small,
 * DATAMOVER_UNSUPPORTED where the options say another method), test and wait return on all; nothing
 * has moved then. All processes start moves in the same order. DATAMOVER_INVALID_STATE with a move
 * of this distribution in flight, or eight of the communicator's. */
int datamover_distribution_start(datamover_distribution* distribution, int64_t num_columns,
                                 const datamover_column* columns, const datamover_room* results);
/* Does what can be done now; `done` is set to 1 when complete here, else to 0. When complete it is
 * no longer in flight: test and wait are DATAMOVER_INVALID_STATE then. Local. */
int datamover_distribution_test(datamover_distribution* distribution, int* done);
/* Returns when everything has arrived here and the columns may be changed. After `timeout_seconds`
 * (below 0: those of datamover_set_timeout) it returns DATAMOVER_TIMEOUT: still in flight. */
int datamover_distribution_wait(datamover_distribution* distribution, double timeout_seconds);
/* The same in one call, by the method and in the order of the options. DATAMOVER_INVALID_STATE, on
 * all processes, where a move of this distribution is in flight on any; so for reverse. */
int datamover_distribution_move(datamover_distribution* distribution, int64_t num_columns,
                                const datamover_column* columns, const datamover_room* results);
/* Takes values, one per element that arrived, in that order, back to where the elements came from.
 * Where an element had several targets its values are combined by `op` in their order: "replace"
 * (NULL; the last one stays), "add", "multiply", "min" or "max". Elements without a target get
 * zero. */
int datamover_distribution_reverse(datamover_distribution* distribution, int64_t num_columns,
                                   const datamover_column* values, const datamover_room* results,
                                   const char* op);
/* For libraries on top of this one: takes part in the move or reverse that the other processes
 * call, or in their start, as one that cannot. All get `code`, not 0, with the message of
 * datamover_error_message() here: from this call, or where they test and wait for what was started.
 */
int datamover_distribution_refuse(datamover_distribution* distribution, int code);
int datamover_distribution_start_refused(datamover_distribution* distribution, int code);
/* Gives a move in flight up: the other processes get DATAMOVER_PEER_FAILED. Local. */
int datamover_distribution_free(datamover_distribution** distribution);

/* ------------------------------------------------------------------ targets by keys */

/* A map from the keys of elements, or from their positions in space, to ranks of so many processes
 * (1 to 2^31 - 1). All about maps is local but datamover_distribution_by_keys. */
typedef struct datamover_target_map datamover_target_map;

/* What a key gets that has no target: not a number, or outside. A distribution refuses it. */
#define DATAMOVER_NO_TARGET (-2)

/* Integer keys: key modulo `nprocs`, never negative. */
int datamover_target_map_modulo(datamover_target_map** map, int64_t nprocs);
/* `total` integer keys from `first_key` on, in blocks of ceil(total / nprocs), HPF's BLOCK; others
 * have no target. */
int datamover_target_map_block(datamover_target_map** map, int64_t first_key, int64_t total,
                               int64_t nprocs);
/* Keys up to (not including) values[0] go to process 0, and so on, by search. The nprocs - 1 values
 * ascend; they are of `type`: DATAMOVER_FLOAT64, DATAMOVER_INT64 or DATAMOVER_UINT64 (else
 * DATAMOVER_WRONG_TYPE). Integers, as values or as keys, are compared exactly. */
int datamover_target_map_splitters(datamover_target_map** map, datamover_type type,
                                   const void* values, int64_t nprocs);

/* A box of space, cut into equal cells, fewer than 2^31. */
typedef struct datamover_cell_box {
    int dims;         /* 1 to 8 */
    const double* lo; /* its corners: one coordinate per dimension */
    const double* hi;
    const int64_t* cells; /* how many cells in each dimension */
    int periodic; /* not 0: positions outside are wrapped; else they count to the nearest cell */
} datamover_cell_box;
/* Positions in space: the process of the cell that they lie in. `order` is "row_major" (NULL; the
 * last dimension fastest), "morton" or "hilbert". `owners` tells the process of each cell along the
 * order, as many as there are cells, or -1 to drop; NULL: equal parts of the order, one after the
 * other. O(cells) where owners are given. */
int datamover_target_map_cells(datamover_target_map** map, const datamover_cell_box* box,
                               const char* order, const int64_t* owners, int64_t nprocs);

/* The keys of elements: real numbers in memory. */
typedef struct datamover_keys {
    int64_t elems;
    int dims;             /* numbers of an element, which lie together; 0: one */
    const void* data;     /* not looked at for no elements */
    datamover_type type;  /* of the numbers */
    int64_t stride_bytes; /* from element to element; 0: they lie one behind the other */
} datamover_keys;
/* Writes the rank of every element, or DATAMOVER_NO_TARGET, to `ranks`. DATAMOVER_WRONG_TYPE or
 * DATAMOVER_MISMATCH where keys are not of the kind, or of the dimensions, that the map wants.
 * O(elems). */
int datamover_target_map_ranks(const datamover_target_map* map, const datamover_keys* keys,
                               int64_t* ranks);
/* A distribution to the processes that a map tells, without an array of ranks; `options` may be
 * NULL. What is wrong with one process's keys all are told. Collective over `comm`; the map is not
 * needed afterwards. */
int datamover_distribution_by_keys(datamover_distribution** distribution, MPI_Comm comm,
                                   const datamover_target_map* map, const datamover_keys* keys,
                                   const datamover_distribution_options* options);
int datamover_target_map_free(datamover_target_map** map);

DATAMOVER_PUBLIC_END
#ifdef __cplusplus
}
#endif

#endif

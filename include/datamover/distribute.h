/* SPDX-License-Identifier: BSD-3-Clause */
/* Migrations in C: every element is sent to the process that is named for it.
 *
 * Use one call, or a migration that is made once and executed any number of times, with any
 * number of columns, also while the program computes, and in reverse.
 *
 * Source: M. Hofmann, G. Ruenger, Fine-grained Data Distribution Operations for Particle Codes,
 * section 3 (MPI_Alltoall_specific). All functions return MPI_SUCCESS (0) or a datamover_code
 * (datamover/datamover.h). By default they are collective: the code is then the same on all
 * processes. datamover_error_message() returns a description. Elements arrive in stable order: by
 * source process, then by position there. */
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

/* ------------------------------------------------------------------ migration in one call */

/* Send each of `sendcount` elements to its target process. The target rank is stored, as an int,
 * `tproc_pos` bytes after the start of the element; -1 drops it. The received elements are written
 * to `recvbuf`, which has room for `recvcount` elements, and their number to `received`. Elements
 * of `sendtype` and `recvtype` have the size of the type's extent, including holes; both extents
 * must be the same.
 *
 * If `sendbuf` is MPI_IN_PLACE, the elements are in `recvbuf` and are replaced there (`sendtype` is
 * ignored, `sendcount` is their number); all processes pass it or none. Arrivals then fill the
 * places of elements that left, and follow at the end: the order of elements that stay is kept, but
 * not the stable order.
 *
 * If `recvcount` is too small on any process, nothing is moved, `sendbuf` is unchanged, all
 * processes return DATAMOVER_MISMATCH, and `received` is the number of elements that this process
 * would have received. If a rank is outside the communicator, all processes return
 * DATAMOVER_OUT_OF_RANGE, and nothing is moved. */
int datamover_alltoall_specific(void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                                int recvcount, MPI_Datatype recvtype, int tproc_pos, int* received,
                                MPI_Comm comm);

/* Send elements as above, with 64-bit counts. */
int datamover_alltoall_specific_c(void* sendbuf, int64_t sendcount, MPI_Datatype sendtype,
                                  void* recvbuf, int64_t recvcount, MPI_Datatype recvtype,
                                  int64_t tproc_pos, int64_t* received, MPI_Comm comm);

/* Return the target rank of an element, -1 for none; called once per element, in order. */
typedef int (*datamover_target_function)(const void* element, void* context);

/* Send elements as above, with targets from a function instead of a position in the element. */
int datamover_alltoall_specific_function(void* sendbuf, int64_t sendcount, MPI_Datatype sendtype,
                                         void* recvbuf, int64_t recvcount, MPI_Datatype recvtype,
                                         datamover_target_function target, void* context,
                                         int64_t* received, MPI_Comm comm);

/* ------------------------------------------------------------------ migrations */

/* A plan that moves every element of this process to the processes of its targets. */
typedef struct datamover_migration datamover_migration;

/* The target ranks of this process's elements in memory: integers, read once; -1 drops. */
typedef struct datamover_targets {
    int64_t elems;            /* elements on this process */
    int64_t targets_per_elem; /* target processes per element, with adjacent ranks; 0: one */
    const void* data;         /* ignored if there are no elements */
    datamover_type type;      /* DATAMOVER_INT32, DATAMOVER_INT64 or another integer type */
    int64_t stride_bytes;     /* from rank to rank; 0: contiguous */
} datamover_targets;

/* An array of elements to move: its n-th element belongs to the n-th target. */
typedef struct datamover_column {
    const void* data;     /* ignored if there are no elements */
    int64_t elems;        /* elements to send, or elements received for reverse */
    int64_t elem_bytes;   /* above 0 */
    int64_t stride_bytes; /* from element to element; 0: contiguous */
    datamover_type type;  /* what reverse combines; an element may be several numbers of it */
} datamover_column;

/* Contiguous memory for the received elements of a column. */
typedef struct datamover_room {
    void* data;
    int64_t elems; /* at least the number that arrives */
} datamover_room;

/* Plan a migration: read the targets and exchange counts. The targets are not needed afterwards.
 * `options` may be NULL. DATAMOVER_OUT_OF_RANGE for a rank outside the communicator. Collective
 * over `comm`. O(elems + processes). */
int datamover_migration_create(MPI_Comm comm, const datamover_targets* targets,
                               const datamover_migration_options* options,
                               datamover_migration** migration);
/* Get the numbers of elements on this process, and of those that arrive here. Local. */
int datamover_migration_elems(const datamover_migration* migration, int64_t* elems,
                              int64_t* received);

/* Begin to move all columns, columns[k] into results[k], by "partition" in stable order, without
 * waiting for other processes. The program must write neither columns nor results until wait
 * returns. If the arguments are invalid on any process (DATAMOVER_MISMATCH if a result is too
 * small, DATAMOVER_UNSUPPORTED if the options specify another method), test and wait return the
 * error on all, and nothing is moved. DATAMOVER_INVALID_STATE if a move of this migration is in
 * flight, or eight of the communicator. All processes must start moves in the same order. */
int datamover_migration_start(datamover_migration* migration, int64_t num_columns,
                              const datamover_column columns[], const datamover_room results[]);
/* Do the work that can be done now. `done` is set to 0, or to 1 if the move is complete here. Once
 * complete, it is no longer in flight: test and wait return DATAMOVER_INVALID_STATE. Local. */
int datamover_migration_test(datamover_migration* migration, int* done);
/* Wait until everything has arrived here and the columns may be changed. After `timeout_seconds` it
 * returns DATAMOVER_TIMEOUT, and the move is still in flight. */
int datamover_migration_wait(datamover_migration* migration, double timeout_seconds);
/* Move in one call, by the method and in the order of the options. Like reverse, returns
 * DATAMOVER_INVALID_STATE on all processes if a move of this migration is in flight on any. */
int datamover_migration_move(datamover_migration* migration, int64_t num_columns,
                             const datamover_column columns[], const datamover_room results[]);
/* Return values to the processes that the elements came from, one value per received element, in
 * the order of arrival. If an element had several targets, its values are combined by `op` in their
 * order: "replace" (NULL; the last one remains), "add", "multiply", "min" or "max". Elements
 * without a target get zero. */
int datamover_migration_reverse(datamover_migration* migration, int64_t num_columns,
                                const datamover_column values[], const datamover_room results[],
                                const char* op);
/* Take the place of a move or reverse on a process that cannot call it: all processes return `code`
 * (above 0) and `message` (NULL: that of datamover_error_message() here). */
int datamover_migration_join_as_failed(datamover_migration* migration, int code,
                                       const char* message);
/* Take the place of a start, likewise: all processes get the error when they test and wait for the
 * started move. */
int datamover_migration_start_as_failed(datamover_migration* migration, int code,
                                        const char* message);
/* Free a migration, and abandon a move in flight: the other processes then get
 * DATAMOVER_PEER_FAILED. Local. */
int datamover_migration_free(datamover_migration** migration);

/* ------------------------------------------------------------------ targets by keys */

/* A map from the keys of elements, or from their positions in space, to the ranks of a number of
 * processes (1 to 2^31 - 1). All its functions are local except
 * datamover_migration_create_by_keys. */
typedef struct datamover_target_map datamover_target_map;

/* The rank of a key that has no target: it is not a number, or outside. A migration rejects it. */
#define DATAMOVER_NO_TARGET (-2)

/* Map integer keys: key modulo `nprocs`, never negative. */
int datamover_target_map_create_modulo(int64_t nprocs, datamover_target_map** map);
/* Map `total` integer keys from `first_key` in blocks of ceil(total / nprocs), HPF's BLOCK; other
 * keys have no target. */
int datamover_target_map_create_block(int64_t first_key, int64_t total, int64_t nprocs,
                                      datamover_target_map** map);
/* Map keys by search among ascending values: keys below values[0] go to process 0, and so on. The
 * nprocs - 1 values are of `type`: DATAMOVER_FLOAT64, DATAMOVER_INT64 or DATAMOVER_UINT64
 * (otherwise DATAMOVER_WRONG_TYPE). Integers, as values or as keys, are compared exactly. */
int datamover_target_map_create_splitters(datamover_type type, const void* values, int64_t nprocs,
                                          datamover_target_map** map);

/* A box of space, divided into fewer than 2^31 equal cells. */
typedef struct datamover_cell_box {
    int dims;         /* 1 to 8 */
    const double* lo; /* its corners: one coordinate per dimension */
    const double* hi;
    const int64_t* cells; /* number of cells in each dimension */
    int periodic; /* not 0: positions outside are wrapped; 0: they belong to the nearest cell */
} datamover_cell_box;
/* Map positions in space to the process of their cell. `order` is "row_major" (NULL; the last
 * dimension fastest), "morton" or "hilbert". `owners` holds the process of each cell along the
 * order, one per cell, or -1 to drop; NULL: equal contiguous parts of the order. O(cells) if owners
 * are given. */
int datamover_target_map_create_cells(const datamover_cell_box* box, const char* order,
                                      const int64_t* owners, int64_t nprocs,
                                      datamover_target_map** map);

/* The keys of elements: real numbers in memory. */
typedef struct datamover_keys {
    int64_t elems;
    int dims;             /* numbers per element, adjacent; 0: one */
    const void* data;     /* ignored if there are no elements */
    datamover_type type;  /* of the numbers */
    int64_t stride_bytes; /* from element to element; 0: contiguous */
} datamover_keys;
/* Write the rank of every element, or DATAMOVER_NO_TARGET, to `ranks`. DATAMOVER_WRONG_TYPE or
 * DATAMOVER_MISMATCH if the keys do not have the kind or the dimensions that the map requires.
 * O(elems). */
int datamover_target_map_ranks(const datamover_target_map* map, const datamover_keys* keys,
                               int64_t ranks[]);
/* Plan a migration to the processes given by a map, without an array of ranks. `options` may be
 * NULL. The map is not needed afterwards. An error in one process's keys is returned on all.
 * Collective over `comm`. */
int datamover_migration_create_by_keys(MPI_Comm comm, const datamover_target_map* map,
                                       const datamover_keys* keys,
                                       const datamover_migration_options* options,
                                       datamover_migration** migration);
/* Free a target map. */
int datamover_target_map_free(datamover_target_map** map);

DATAMOVER_PUBLIC_END
#ifdef __cplusplus
}
#endif

#endif

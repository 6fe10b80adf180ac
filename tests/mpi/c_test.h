/* SPDX-License-Identifier: BSD-3-Clause */
/* Counting of failures, and shared arrays, for tests of the C interface in C. */
#ifndef DATAMOVER_TESTS_C_TEST_H
#define DATAMOVER_TESTS_C_TEST_H

#include <datamover/datamover.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, failures;

/* A check that takes a minute never ends: another process has left this one. */
static void check(int holds, const char* what, int line) {
    alarm(60);
    if (holds) return;
    ++failures;
    fprintf(stderr, "process %d of %d, line %d: %s (%s)\n", rank, size, line, what,
            datamover_error_message());
}
#define CHECK(condition) check(condition, #condition, __LINE__)
#define SUCCEEDS(call) check((call) == DATAMOVER_SUCCESS, #call, __LINE__)
#define FAILS(code, call) check((call) == (code), #call " gives " #code, __LINE__)

static inline datamover_layout* block_cyclic(int64_t rows, int64_t columns,
                                             const char* distribution) {
    const int64_t shape[2] = {rows, columns};
    datamover_layout* layout = NULL;
    SUCCEEDS(datamover_layout_create_block_cyclic(2, shape, distribution, size, NULL, &layout));
    return layout;
}

static inline datamover_array* array_of(const datamover_layout* layout, int column_major) {
    datamover_array* array = NULL;
    SUCCEEDS(datamover_array_create(MPI_COMM_WORLD, layout, DATAMOVER_INT64, 8, column_major, NULL,
                                    NULL, &array));
    return array;
}

/* Calls visit(element, global row, global column) for every element of a block-cyclic matrix here.
 */
typedef void element_visitor(void* element, int64_t row, int64_t column);

static inline void visit_elements(const datamover_layout* layout, const datamover_array* array,
                                  element_visitor* visit) {
    int64_t block, count, shape[2], local[2], global[2], strides[2];
    void* origin = NULL;
    SUCCEEDS(datamover_layout_blocks_of(layout, rank, &block, 1, &count));
    if (count == 0) return;
    SUCCEEDS(datamover_layout_local_shape(layout, rank, shape));
    SUCCEEDS(datamover_array_block(array, block, &origin, strides));
    for (local[0] = 0; local[0] < shape[0]; ++local[0])
        for (local[1] = 0; local[1] < shape[1]; ++local[1]) {
            SUCCEEDS(datamover_layout_global_index(layout, rank, local, global));
            visit((char*)origin + local[0] * strides[0] + local[1] * strides[1], global[0],
                  global[1]);
        }
}

/* Starts MPI; `finish` ends it and gives the exit code, the same on all processes. */
static inline void begin(int* argc, char*** argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static inline int finish(void) {
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif

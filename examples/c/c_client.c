/* SPDX-License-Identifier: BSD-3-Clause */
/* Repeated redistribution of a matrix from rows to columns, in C. */
#include <datamover/datamover.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 600, COLUMNS = 400, STEPS = 3 };

/* The library's functions return 0 or a code; the message describes the error. */
static void succeed(int code) {
    if (code == DATAMOVER_SUCCESS) return;
    fprintf(stderr, "%s: %s\n", datamover_error_name(code), datamover_error_message());
    MPI_Abort(MPI_COMM_WORLD, code);
    exit(code);
}

static double value_at(int64_t row, int64_t column, int step) {
    return (double)(step * ROWS * COLUMNS + row * COLUMNS + column);
}

int main(int argc, char** argv) {
    const int64_t shape[2] = {ROWS, COLUMNS};
    datamover_layout *by_rows, *by_columns;
    datamover_plan* plan;
    datamover_array *a, *b;
    datamover_mover* mover;
    int rank, size, step, wrong = 0, wrong_anywhere = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    /* The two layouts, and the plan from one to the other: made once. */
    succeed(datamover_layout_create_block_cyclic(2, shape, "(block, *)", size, NULL, &by_rows));
    succeed(
        datamover_layout_create_block_cyclic(2, shape, "(*, cyclic(16))", size, NULL, &by_columns));
    succeed(datamover_redistribute(by_rows, by_columns, NULL, &plan));

    /* The rows are in memory of our own, the columns in the library's, with the first index
     * contiguous. */
    {
        int64_t extents[2], strides[2], num_blocks = 0, row, column, local[2], global[2];
        datamover_block block = {0};
        double *rows, *columns;
        void* origin = NULL;

        succeed(datamover_layout_local_shape(by_rows, rank, extents));
        rows = malloc(sizeof(double) * (size_t)(extents[0] * extents[1] + 1));
        strides[0] = extents[1] * (int64_t)sizeof(double);
        strides[1] = sizeof(double);
        block.block = rank;
        block.origin = rows;
        block.strides_bytes = strides;
        succeed(datamover_layout_blocks_of(by_rows, rank, NULL, 0, &num_blocks));
        succeed(datamover_array_of_blocks(by_rows, DATAMOVER_FLOAT64, sizeof(double), &block,
                                          num_blocks, &a));
        succeed(datamover_array_create(MPI_COMM_WORLD, by_columns, DATAMOVER_FLOAT64,
                                       sizeof(double), 1, NULL, NULL, &b));
        succeed(datamover_array_block(b, rank, &origin, NULL));
        columns = origin;
        succeed(datamover_mover_create(MPI_COMM_WORLD, plan, a, b, NULL, &mover));

        for (step = 0; step < STEPS; ++step) {
            for (row = 0; row < extents[0]; ++row)
                for (column = 0; column < COLUMNS; ++column) {
                    local[0] = row, local[1] = column;
                    succeed(datamover_layout_global_index(by_rows, rank, local, global));
                    rows[row * COLUMNS + column] = value_at(global[0], global[1], step);
                }
            succeed(datamover_mover_start(mover));
            /* Here the program computes on anything but rows and columns. */
            succeed(datamover_mover_wait(mover, 30));

            succeed(datamover_layout_local_shape(by_columns, rank, local));
            for (column = 0; column < local[1]; ++column)
                for (row = 0; row < ROWS; ++row) {
                    int64_t at[2];
                    at[0] = row, at[1] = column;
                    succeed(datamover_layout_global_index(by_columns, rank, at, global));
                    wrong += columns[row + column * ROWS] != value_at(global[0], global[1], step);
                }
        }
        succeed(datamover_mover_free(&mover));
        free(rows);
    }

    MPI_Allreduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d steps of %d x %d elements on %d processes: %d wrong\n", STEPS, ROWS, COLUMNS,
               size, wrong_anywhere);
    succeed(datamover_array_free(&a));
    succeed(datamover_array_free(&b));
    succeed(datamover_plan_free(&plan));
    succeed(datamover_layout_free(&by_rows));
    succeed(datamover_layout_free(&by_columns));
    MPI_Finalize();
    return wrong_anywhere ? EXIT_FAILURE : EXIT_SUCCESS;
}

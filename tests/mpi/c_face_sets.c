/* SPDX-License-Identifier: BSD-3-Clause
 * C interface: moves several arrays at once, one of them in a shared MPI window, also with a
 * progress thread, and gives up a mover. */
#include <math.h>

#include "c_test.h"

enum { rows_per_process = 3 };

static datamover_array* own_array(const datamover_layout* layout, datamover_type type,
                                  int64_t bytes, void* data) {
    datamover_array* array = NULL;
    datamover_block block = {0};
    const int64_t strides[1] = {bytes};
    block.block = rank;
    block.origin = data;
    block.strides_bytes = strides;
    SUCCEEDS(datamover_array_of_blocks(layout, type, bytes, &block, 1, &array));
    return array;
}

int main(int argc, char** argv) {
    int level = 0, carries = -1, round = 0, i = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int64_t shape[1] = {(int64_t)rows_per_process * size};
    datamover_layout *block = NULL, *cyclic = NULL;
    SUCCEEDS(datamover_layout_create_block_cyclic(1, shape, "(block)", size, NULL, &block));
    SUCCEEDS(datamover_layout_create_block_cyclic(1, shape, "(cyclic)", size, NULL, &cyclic));
    datamover_plan* plan = NULL;
    SUCCEEDS(datamover_redistribute(block, cyclic, NULL, &plan));

    double *a = NULL, b[rows_per_process] = {0};
    datamover_window_memory *known = NULL, *unknown = NULL;
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Win window = MPI_WIN_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Win_allocate_shared(sizeof b, 1, MPI_INFO_NULL, node, (void*)&a, &window);
    SUCCEEDS(datamover_in_window(window, a, sizeof b, &known));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_in_window(window, b, sizeof b, &unknown));
    CHECK(known != NULL && unknown == NULL);
    int32_t c[rows_per_process], d[rows_per_process] = {0};
    const datamover_array* sources[2] = {own_array(block, DATAMOVER_FLOAT64, 8, a),
                                         own_array(block, DATAMOVER_INT32, 4, c)};
    const datamover_array* destinations[2] = {own_array(cyclic, DATAMOVER_FLOAT64, 8, b),
                                              own_array(cyclic, DATAMOVER_INT32, 4, d)};
    const datamover_move move = {plan, 2, sources, destinations};
    datamover_mover* mover = NULL;
    SUCCEEDS(datamover_mover_create_set(MPI_COMM_WORLD, &move, 1, 1, NULL, &mover));
    for (round = 0; round < 4; ++round) {
        if (round == 2) {
            SUCCEEDS(datamover_progress_start(&carries));
            CHECK(carries == (level == MPI_THREAD_MULTIPLE));
        }
        for (i = 0; i < rows_per_process; ++i) {
            a[i] = 100 * round + rank * rows_per_process + i;
            c[i] = (int32_t)(-100 * round - rank * rows_per_process - i);
        }
        SUCCEEDS(datamover_mover_start(mover));
        SUCCEEDS(datamover_mover_wait(mover, -1));
        for (i = 0; i < rows_per_process; ++i) {
            CHECK(b[i] == 100 * round + rank + i * size);
            CHECK(d[i] == -100 * round - rank - i * size);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    SUCCEEDS(datamover_progress_stop());
    FAILS(DATAMOVER_INVALID_STATE, datamover_progress_stop());
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_set_timeout(-1));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_set_timeout(0));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_set_timeout((double)NAN));
    SUCCEEDS(datamover_set_timeout(1000));
    SUCCEEDS(datamover_set_timeout((double)INFINITY));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_mover_create_set(MPI_COMM_WORLD, rank == 0 ? NULL : &move, 1, 1, NULL, &mover));
    {
        const datamover_move nothing = {plan, 0, sources, destinations};
        FAILS(DATAMOVER_INVALID_ARGUMENT,
              datamover_mover_create_set(MPI_COMM_WORLD, &nothing, 1, 1, NULL, &mover));
    }
    SUCCEEDS(datamover_mover_abort(&mover));
    CHECK(mover == NULL);

    for (i = 0; i < 2; ++i) {
        datamover_array *source = (datamover_array*)sources[i],
                        *destination = (datamover_array*)destinations[i];
        SUCCEEDS(datamover_array_free(&source));
        SUCCEEDS(datamover_array_free(&destination));
    }
    SUCCEEDS(datamover_window_memory_free(&known));
    MPI_Win_free(&window);
    MPI_Comm_free(&node);
    SUCCEEDS(datamover_plan_free(&plan));
    SUCCEEDS(datamover_layout_free(&block));
    SUCCEEDS(datamover_layout_free(&cyclic));
    return finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams in C: programs that send their arrays to each other while they run. Here one program
 * contains both ends. */
#include <string.h>

#include "checked.h"

enum { STEPS = 3 };

int main(int argc, char** argv) {
    const int64_t shape[1] = {60};
    const char *address, *token, *found, *const name = "pressure";
    datamover_stream_manager_options few = {0};
    datamover_stream_manager* manager;
    datamover_stream* out;
    datamover_stream_source* in;
    datamover_layout *block, *cyclic;
    datamover_array *sent, *received;
    const datamover_array* wanted[1];
    int64_t active, dropped, number, i, elems, step, count, elem_bytes;
    void* origin;
    double* points;
    int rank, size, has;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    succeed(datamover_layout_create_block_cyclic(1, shape, "(block)", size, NULL, &block));
    succeed(datamover_layout_create_block_cyclic(1, shape, "(cyclic)", size, NULL, &cyclic));
    succeed(
        datamover_array_create(MPI_COMM_WORLD, block, DATAMOVER_FLOAT64, 8, 0, NULL, NULL, &sent));
    succeed(datamover_array_create(MPI_COMM_WORLD, cyclic, DATAMOVER_FLOAT64, 8, 0, NULL, NULL,
                                   &received));

    /* At most two streams of this manager hold buffers at a time. */
    few.active = 2;
    succeed(datamover_stream_manager_create(MPI_COMM_WORLD, &few, &manager));
    succeed(
        datamover_stream_manager_create_stream(manager, "fields", "tcp://127.0.0.1:0", NULL, &out));
    succeed(datamover_stream_address(out, &address));
    succeed(datamover_stream_token(out, &token));
    expect(token[0] != '\0', "consumers of another user need a token");

    succeed(datamover_source_create(MPI_COMM_WORLD, address, NULL, &in));
    wanted[0] = received;
    succeed(datamover_source_subscribe(in, 1, &name, wanted));
    succeed(datamover_array_block(sent, rank, &origin, NULL));
    succeed(datamover_layout_local_elems(block, rank, &elems));
    for (step = 0; step < STEPS; ++step) {
        for (points = origin, i = 0; i < elems; ++i) points[i] = (double)(100 * step + rank);
        succeed(datamover_stream_send(out, name, sent, step));
        succeed(datamover_stream_end_step(out));
        succeed(datamover_source_next(in, 60, &number));
        succeed(datamover_source_has(in, name, &has));
        expect(number == step && has, "the step and its array");
    }
    succeed(datamover_stream_manager_active(manager, &active));
    expect(rank != 0 || active == 1, "the stream has its place");
    succeed(datamover_source_arrays(in, 60, &count));
    succeed(datamover_source_array(in, 0, &found, NULL, &elem_bytes, NULL));
    expect(count == 1 && strcmp(found, name) == 0 && elem_bytes == 8, "one array was sent");
    succeed(datamover_source_dropped(in, &dropped));
    expect(dropped == 0, "nothing was dropped");
    succeed(datamover_stream_close(out, 60));
    succeed(datamover_source_next(in, 60, &number));
    expect(number == DATAMOVER_NO_STEP, "the stream has ended");
    succeed(datamover_source_free(&in));
    succeed(datamover_stream_free(&out));
    succeed(datamover_stream_manager_free(&manager));

    succeed(datamover_array_free(&sent));
    succeed(datamover_array_free(&received));
    succeed(datamover_layout_free(&block));
    succeed(datamover_layout_free(&cyclic));
    if (rank == 0) puts("streams: as said");
    MPI_Finalize();
    return 0;
}

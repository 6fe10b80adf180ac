/* SPDX-License-Identifier: BSD-3-Clause */
/* C interface of sending ends of streams. With a file name as argument, the program writes the
 * stream's address to it, for another program that connects, and sends three steps. */
#include <stdio.h>

#include "c_test.h"

enum { rows = 13, columns = 7, steps = 3 };
static const char token[] = "known to both programs";

static int64_t filled_step;

static void number(void* element, int64_t row, int64_t column) {
    *(int64_t*)element = 10000 * filled_step + 100 * row + column;
}

static void fill(const datamover_layout* layout, const datamover_array* array, int64_t step) {
    filled_step = step;
    visit_elements(layout, array, number);
}

/* Appears under its name when it is whole. */
static void tell(const char* path, const char* address) {
    char hidden[512];
    snprintf(hidden, sizeof hidden, "%s.part", path);
    FILE* file = fopen(hidden, "w");
    CHECK(file != NULL);
    if (file == NULL) return;
    CHECK(fputs(address, file) >= 0);
    CHECK(fclose(file) == 0 && rename(hidden, path) == 0);
}

static void expect_refusals(datamover_stream* stream, const datamover_array* array,
                            const datamover_array* other) {
    const int is_last = rank == size - 1;
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_stream_send(stream, is_last ? NULL : "u", array, 0));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_stream_send(stream, "u", is_last ? NULL : array, 0));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_stream_send(stream, is_last ? "" : "u", array, 0));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_stream_send(stream, "u", array, is_last ? -2 : 0));
    if (size > 1) {
        FAILS(DATAMOVER_MISMATCH, datamover_stream_send(stream, "u", is_last ? other : array, 0));
        FAILS(DATAMOVER_MISMATCH, datamover_stream_send(stream, is_last ? "v" : "u", array, 0));
    }
}

/* A process whose program fails has the others fail in the call that they make. */
static void expect_refused_together(datamover_stream* stream, const datamover_array* array) {
    const int is_last = rank == size - 1;
    FAILS(DATAMOVER_MPI, is_last
                             ? datamover_stream_join_as_failed(stream, DATAMOVER_MPI, "no input")
                             : datamover_stream_send(stream, "u", array, 0));
    FAILS(DATAMOVER_INVALID_ARGUMENT, is_last ? datamover_stream_join_as_failed(stream, 999, NULL)
                                              : datamover_stream_end_step(stream));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_stream_join_as_failed(NULL, DATAMOVER_MPI, NULL));
}

/* Several streams of which one at a time holds buffers. */
static void share_places(const datamover_array* array) {
    const int is_last = rank == size - 1;
    const char* here = "tcp://127.0.0.1:0";
    const datamover_stream_manager_options options = {2, "step", 1.5};
    const datamover_stream_manager_options wrong = {1, "week", 0};
    datamover_stream_manager *manager = NULL, *none = NULL;
    datamover_stream *one = NULL, *other = NULL;
    int64_t active = -1;
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_stream_manager_create(MPI_COMM_WORLD, is_last ? &wrong : NULL, &none));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_stream_manager_create(MPI_COMM_WORLD, NULL, is_last ? NULL : &none));
    SUCCEEDS(datamover_stream_manager_create(MPI_COMM_WORLD, &options, &manager));
    SUCCEEDS(datamover_stream_manager_create_stream(manager, "one", here, NULL, &one));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_stream_manager_create_stream(manager, "one", here, NULL, &other));
    if (size > 1)
        FAILS(DATAMOVER_MISMATCH, datamover_stream_manager_create_stream(
                                      manager, is_last ? "more" : "other", here, NULL, &other));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_stream_manager_create_stream(
                                          manager, is_last ? NULL : "other", here, NULL, &other));
    SUCCEEDS(datamover_stream_manager_create_stream(manager, "other", here, NULL, &other));
    SUCCEEDS(datamover_stream_send(one, "u", array, 7));
    SUCCEEDS(datamover_stream_end_step(one));
    SUCCEEDS(datamover_stream_send(one, "u", array, 7));
    SUCCEEDS(datamover_stream_send(other, "u", array, DATAMOVER_NEXT_STEP));
    SUCCEEDS(datamover_stream_manager_active(manager, &active));
    CHECK(active == 0); /* nobody listens */
    SUCCEEDS(datamover_stream_manager_free(&manager));
    SUCCEEDS(datamover_stream_close(one, 1));
    FAILS(DATAMOVER_INVALID_STATE, datamover_stream_end_step(one));
    SUCCEEDS(datamover_stream_free(&one));
    SUCCEEDS(datamover_stream_free(&other));
    CHECK(manager == NULL && none == NULL);
}

int main(int argc, char** argv) {
    begin(&argc, &argv);
    const datamover_stream_options options = {2, "block", 1, 1 << 20, argc > 1, token, 60, 0, 0};
    const datamover_stream_options wrong = {1, "forget", 0, 0, 0, NULL, 0, 0, 0};
    const char* here = "tcp://127.0.0.1:0";
    const char *address = NULL, *needed = NULL;
    datamover_stream *stream = NULL, *none = NULL;
    datamover_layout* by_rows = block_cyclic(rows, columns, "(cyclic(2), *)");
    datamover_layout* by_columns = block_cyclic(rows, columns, "(*, cyclic)");
    datamover_array *array = array_of(by_rows, 0), *other = array_of(by_columns, 1);

    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_stream_create(MPI_COMM_WORLD, NULL, NULL, &none));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_stream_create(MPI_COMM_WORLD, "udp://127.0.0.1:1", NULL, &none));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_stream_create(MPI_COMM_WORLD, here, rank == size - 1 ? &wrong : NULL, &none));
    SUCCEEDS(datamover_stream_create(MPI_COMM_WORLD, here, &options, &stream));
    SUCCEEDS(datamover_stream_address(stream, &address));
    SUCCEEDS(datamover_stream_token(stream, &needed));
    CHECK(strncmp(address, "tcp://127.0.0.1:", 16) == 0 && strcmp(needed, token) == 0);
    expect_refusals(stream, array, other);
    expect_refused_together(stream, array);
    share_places(array);
    if (argc > 1 && rank == 0) tell(argv[1], address);
    for (int64_t step = 0; step < steps; ++step) {
        fill(by_rows, array, step);
        fill(by_columns, other, -step);
        SUCCEEDS(datamover_stream_send(stream, "u", array, 5 * step));
        SUCCEEDS(datamover_stream_send(stream, "v", other, 5 * step));
        fill(by_rows, array, 99); /* what was sent is not there any more */
    }
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_stream_send(stream, "u", array, 5 * (steps - 1)));
    FAILS(DATAMOVER_MISMATCH, datamover_stream_send(stream, "u", other, DATAMOVER_NEXT_STEP));
    SUCCEEDS(datamover_stream_close(stream, argc > 1 ? 60 : -1));
    SUCCEEDS(datamover_stream_close(stream, 60));
    FAILS(DATAMOVER_INVALID_STATE, datamover_stream_send(stream, "u", array, DATAMOVER_NEXT_STEP));
    SUCCEEDS(datamover_stream_free(&stream));
    CHECK(stream == NULL && none == NULL);
    SUCCEEDS(datamover_stream_free(&none));
    SUCCEEDS(datamover_array_free(&array));
    SUCCEEDS(datamover_array_free(&other));
    SUCCEEDS(datamover_layout_free(&by_rows));
    SUCCEEDS(datamover_layout_free(&by_columns));
    return finish();
}

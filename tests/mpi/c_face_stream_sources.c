/* SPDX-License-Identifier: BSD-3-Clause */
/* C interface of receiving ends of streams. With an address as argument, the program receives three
 * steps of another program's stream; without, it is both ends of one. */
#include <math.h>

#include "c_test.h"

enum { rows = 13, columns = 7, steps = 3 };
static const char token[] = "known to both programs";

static int64_t expected_factor, wrong;

static void number(void* element, int64_t row, int64_t column) {
    *(int64_t*)element = expected_factor + 100 * row + column;
}

static void compare(void* element, int64_t row, int64_t column) {
    wrong += *(int64_t*)element != expected_factor + 100 * row + column;
}

static void fill(const datamover_layout* layout, const datamover_array* array, int64_t factor) {
    expected_factor = factor;
    visit_elements(layout, array, number);
}

static int holds(const datamover_layout* layout, const datamover_array* array, int64_t factor) {
    expected_factor = factor;
    wrong = 0;
    visit_elements(layout, array, compare);
    return wrong == 0;
}

static datamover_layout *by_rows, *by_columns;
static const char* const names[2] = {"u", "v"};

/* The next step has both arrays, in other layouts than they were sent from. */
static void expect_step(datamover_stream_source* source, const datamover_array* const* into,
                        int64_t step) {
    int64_t number_of_step = -5;
    int has = 0;
    SUCCEEDS(datamover_source_next(source, 60, &number_of_step));
    CHECK(number_of_step == 5 * step);
    CHECK(holds(by_columns, into[0], 10000 * step) && holds(by_rows, into[1], -10000 * step));
    SUCCEEDS(datamover_source_has(source, "v", &has));
    CHECK(has == 1);
    SUCCEEDS(datamover_source_has(source, "w", &has));
    CHECK(has == 0);
}

/* Both arrays that were sent, with the layouts of the sending processes. */
static void expect_arrays(datamover_stream_source* source, const datamover_layout* of_u,
                          const datamover_layout* of_v) {
    const datamover_layout* const sent[2] = {of_u, of_v};
    const char *name = NULL, *dtype = NULL;
    datamover_layout* layout = NULL;
    int64_t count = -1, elem_bytes = 0;
    int n, equal = 0;
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_source_array(source, 0, &name, NULL, NULL, NULL));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_source_arrays(source, 60, rank == size - 1 ? NULL : &count));
    SUCCEEDS(datamover_source_arrays(source, 60, &count));
    CHECK(count == 2);
    for (n = 0; n < 2; ++n) {
        SUCCEEDS(datamover_source_array(source, n, &name, &dtype, &elem_bytes, &layout));
        CHECK(strcmp(name, names[n]) == 0 && strcmp(dtype, "\"<i8\"") == 0 && elem_bytes == 8);
        SUCCEEDS(datamover_layout_equal(layout, sent[n], &equal));
        CHECK(equal == 1);
        SUCCEEDS(datamover_layout_free(&layout));
    }
    SUCCEEDS(datamover_source_array(source, 1, NULL, NULL, NULL, NULL));
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_source_array(source, 2, &name, NULL, NULL, NULL));
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_source_array(source, -1, &name, NULL, NULL, NULL));
}

static void expect_end(datamover_stream_source* source) {
    int64_t step = 0, dropped = -1;
    SUCCEEDS(datamover_source_next(source, 60, &step));
    CHECK(step == DATAMOVER_NO_STEP);
    SUCCEEDS(datamover_source_dropped(source, &dropped));
    CHECK(dropped == 0);
}

static void expect_refusals(const char* address) {
    const int is_last = rank == size - 1;
    const datamover_source_options wrong_ahead = {token, 1, 65, 0, 0};
    const datamover_source_options wrong_token = {"known to one of them", 0, 0, 0, 0};
    const datamover_source_options impatient = {token, 0.01, 0, 0, 0};
    datamover_stream_source* none = NULL;
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_source_create(MPI_COMM_WORLD, NULL, NULL, &none));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_source_create(MPI_COMM_WORLD, is_last ? "udp://127.0.0.1:1" : address,
                                  &impatient, &none));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_source_create(MPI_COMM_WORLD, address, is_last ? &wrong_ahead : NULL, &none));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_source_create(MPI_COMM_WORLD, address, &wrong_token, &none));
    FAILS(DATAMOVER_TIMEOUT,
          datamover_source_create(MPI_COMM_WORLD, "tcp://127.0.0.1:1", &impatient, &none));
    CHECK(none == NULL);
    SUCCEEDS(datamover_source_free(&none));
}

static void expect_wrong_subscriptions(datamover_stream_source* source,
                                       const datamover_array* const* into) {
    const int is_last = rank == size - 1;
    const char* const twice[2] = {"u", "u"};
    int64_t step = 0;
    FAILS(DATAMOVER_INVALID_STATE, datamover_source_next(source, 1, &step));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_source_subscribe(source, is_last ? 0 : 2, names, into));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_source_subscribe(source, 2, is_last ? NULL : names, into));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_source_subscribe(source, 2, twice, into));
    FAILS(DATAMOVER_MPI, is_last
                             ? datamover_source_join_as_failed(source, DATAMOVER_MPI, "no memory")
                             : datamover_source_subscribe(source, 2, names, into));
    CHECK(strstr(datamover_error_message(), "no memory") != NULL);
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_source_join_as_failed(NULL, DATAMOVER_MPI, NULL));
}

/* A consumer whose array is of another type fails; the stream goes on. */
static void expect_wrong_type(const datamover_stream_options* options,
                              const datamover_source_options* known, const datamover_array* u) {
    const char* address = NULL;
    datamover_stream* stream = NULL;
    datamover_stream_source* source = NULL;
    datamover_array* narrow = NULL;
    int64_t step = 0;
    SUCCEEDS(datamover_array_create(MPI_COMM_WORLD, by_columns, DATAMOVER_INT32, 4, 0, NULL, NULL,
                                    &narrow));
    const datamover_array* const into = narrow;
    SUCCEEDS(datamover_stream_create(MPI_COMM_WORLD, "tcp://127.0.0.1:0", options, &stream));
    SUCCEEDS(datamover_stream_address(stream, &address));
    SUCCEEDS(datamover_source_create(MPI_COMM_WORLD, address, known, &source));
    SUCCEEDS(datamover_source_subscribe(source, 1, names, &into));
    SUCCEEDS(datamover_stream_send(stream, "u", u, 0));
    /* The first process that finds it tells the others, which may hear that before they look. */
    FAILS(DATAMOVER_WRONG_TYPE, datamover_source_next(source, 60, &step));
    FAILS(DATAMOVER_WRONG_TYPE, datamover_source_next(source, 60, &step));
    SUCCEEDS(datamover_source_free(&source));
    SUCCEEDS(datamover_stream_send(stream, "u", u, 1));
    SUCCEEDS(datamover_stream_close(stream, 60));
    SUCCEEDS(datamover_stream_free(&stream));
    SUCCEEDS(datamover_array_free(&narrow));
}

/* Each process leaves after the same step; those that leave last still get that step, and an error
 * in place of a further one. */
static void leave_one_after_the_other(const datamover_stream_options* options,
                                      const datamover_source_options* known,
                                      const datamover_array* u,
                                      const datamover_array* const* into) {
    const char* address = NULL;
    datamover_stream* stream = NULL;
    datamover_stream_source* source = NULL;
    int64_t step = 0, number = -1;
    int turn;
    SUCCEEDS(datamover_stream_create(MPI_COMM_WORLD, "tcp://127.0.0.1:0", options, &stream));
    SUCCEEDS(datamover_stream_address(stream, &address));
    SUCCEEDS(datamover_source_create(MPI_COMM_WORLD, address, known, &source));
    SUCCEEDS(datamover_source_subscribe(source, 1, names, into));
    for (step = 0; step < 2; ++step) SUCCEEDS(datamover_stream_send(stream, "u", u, step));
    for (turn = 0; turn < size; ++turn) {
        if (turn == rank) {
            for (step = 0; step < 2; ++step) {
                SUCCEEDS(datamover_source_next(source, 60, &number));
                CHECK(number == step);
            }
            if (rank > 0 && rank == size - 1)
                FAILS(DATAMOVER_PEER_FAILED, datamover_source_next(source, 60, &number));
            SUCCEEDS(datamover_source_free(&source));
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    SUCCEEDS(datamover_stream_close(stream, 60));
    SUCCEEDS(datamover_stream_free(&stream));
}

/* The next step is one array, whole; its numbers begin at `first`. */
static void expect_whole(datamover_stream_source* source, const char* expected_name, int64_t first,
                         const datamover_layout* whole) {
    const char *name = NULL, *dtype = NULL;
    void* elements = NULL;
    int64_t step = -1, elem_bytes = 0, nbytes = 0, i, j;
    int equal = 0;
    datamover_layout* layout = NULL;
    SUCCEEDS(datamover_source_next(source, 60, &step));
    CHECK(step == 4);
    SUCCEEDS(datamover_source_whole_array(source, &name, &dtype, &elem_bytes, &elements, &nbytes,
                                          &layout));
    CHECK(strcmp(name, expected_name) == 0 && strcmp(dtype, "\"<i8\"") == 0 && elem_bytes == 8);
    SUCCEEDS(datamover_layout_equal(layout, whole, &equal));
    CHECK(equal == 1 && nbytes == 8 * rows * columns);
    SUCCEEDS(datamover_layout_free(&layout));
    wrong = 0;
    for (i = 0; i < rows; ++i)
        for (j = 0; j < columns; ++j)
            wrong += ((const int64_t*)elements)[i * columns + j] != first + 100 * i + j;
    CHECK(wrong == 0);
    SUCCEEDS(datamover_source_whole_array(source, NULL, NULL, NULL, NULL, NULL, NULL));
}

/* All arrays, also one that is sent first later, whole, to the first process alone. */
static void want_all(const datamover_stream_options* options,
                     const datamover_source_options* known) {
    const char* address = NULL;
    datamover_stream* stream = NULL;
    datamover_stream_source *source = NULL, *several = NULL;
    datamover_array *u = array_of(by_rows, 0), *v = array_of(by_columns, 1);
    datamover_layout* whole = NULL;
    const int64_t shape[2] = {rows, columns};
    SUCCEEDS(datamover_layout_create_block_cyclic(2, shape, "(*, *)", 1, NULL, &whole));
    SUCCEEDS(datamover_stream_create(MPI_COMM_WORLD, "tcp://127.0.0.1:0", options, &stream));
    SUCCEEDS(datamover_stream_address(stream, &address));
    if (size > 1) {
        SUCCEEDS(datamover_source_create(MPI_COMM_WORLD, address, known, &several));
        FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_source_subscribe_to_all(several));
        SUCCEEDS(datamover_source_free(&several));
    }
    if (rank == 0) {
        FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_source_subscribe_to_all(source));
        SUCCEEDS(datamover_source_create(MPI_COMM_SELF, address, known, &source));
        FAILS(DATAMOVER_INVALID_STATE,
              datamover_source_whole_array(source, NULL, NULL, NULL, NULL, NULL, NULL));
        SUCCEEDS(datamover_source_subscribe_to_all(source));
        FAILS(DATAMOVER_INVALID_STATE, datamover_source_subscribe_to_all(source));
    }
    fill(by_rows, u, 10000);
    fill(by_columns, v, -10000);
    SUCCEEDS(datamover_stream_send(stream, "u", u, 4));
    SUCCEEDS(datamover_stream_send(stream, "v", v, 4));
    if (rank == 0) {
        expect_whole(source, "u", 10000, whole);
        expect_whole(source, "v", -10000, whole);
    }
    SUCCEEDS(datamover_stream_close(stream, 60));
    if (rank == 0) {
        expect_end(source);
        FAILS(DATAMOVER_INVALID_STATE,
              datamover_source_whole_array(source, NULL, NULL, NULL, NULL, NULL, NULL));
        SUCCEEDS(datamover_source_free(&source));
    }
    SUCCEEDS(datamover_stream_free(&stream));
    SUCCEEDS(datamover_layout_free(&whole));
    SUCCEEDS(datamover_array_free(&u));
    SUCCEEDS(datamover_array_free(&v));
}

static void be_both_ends(const datamover_array* const* into) {
    const datamover_stream_options options = {2, "block", 2, 0, 1, token, 60, 0, 0};
    const datamover_source_options known = {token, 0, 0, 0, 0};
    const char* address = NULL;
    datamover_stream* stream = NULL;
    datamover_stream_source* source = NULL;
    datamover_array *u = array_of(by_rows, 0), *v = array_of(by_columns, 1);
    int64_t step, none = 0;

    SUCCEEDS(datamover_stream_create(MPI_COMM_WORLD, "tcp://127.0.0.1:0", &options, &stream));
    SUCCEEDS(datamover_stream_address(stream, &address));
    expect_refusals(address);
    SUCCEEDS(datamover_source_create(MPI_COMM_WORLD, address, &known, &source));
    expect_wrong_subscriptions(source, into);
    SUCCEEDS(datamover_source_subscribe(source, 2, names, into));
    FAILS(DATAMOVER_INVALID_STATE, datamover_source_subscribe(source, 2, names, into));
    for (step = 0; step < steps; ++step) {
        fill(by_rows, u, 10000 * step);
        fill(by_columns, v, -10000 * step);
        SUCCEEDS(datamover_stream_send(stream, "u", u, 5 * step));
        SUCCEEDS(datamover_stream_send(stream, "v", v, 5 * step));
        fill(by_rows, u, 99);
        expect_step(source, into, step);
    }
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_source_next(source, (double)NAN, &none));
    FAILS(DATAMOVER_TIMEOUT, datamover_source_next(source, 0, &none));
    SUCCEEDS(datamover_set_timeout(0.01));
    FAILS(DATAMOVER_TIMEOUT, datamover_source_next(source, -1, &none));
    SUCCEEDS(datamover_set_timeout((double)INFINITY));
    expect_arrays(source, by_rows, by_columns);
    SUCCEEDS(datamover_stream_close(stream, 60));
    expect_end(source);
    SUCCEEDS(datamover_source_free(&source));
    CHECK(source == NULL);
    SUCCEEDS(datamover_stream_free(&stream));

    expect_wrong_type(&options, &known, u);
    leave_one_after_the_other(&options, &known, u, into);
    want_all(&options, &known);
    SUCCEEDS(datamover_array_free(&u));
    SUCCEEDS(datamover_array_free(&v));
}

static void be_receiver(const char* address, const datamover_array* const* into) {
    datamover_stream_source* source = NULL;
    SUCCEEDS(datamover_source_create(MPI_COMM_WORLD, address, NULL, &source));
    SUCCEEDS(datamover_source_subscribe(source, 2, names, into));
    for (int64_t step = 0; step < steps; ++step) expect_step(source, into, step);
    expect_end(source);
    SUCCEEDS(datamover_source_free(&source));
}

int main(int argc, char** argv) {
    begin(&argc, &argv);
    by_rows = block_cyclic(rows, columns, "(cyclic(2), *)");
    by_columns = block_cyclic(rows, columns, "(*, cyclic)");
    datamover_array *first = array_of(by_columns, 0), *second = array_of(by_rows, 1);
    const datamover_array* const into[2] = {first, second};
    if (argc > 1)
        be_receiver(argv[1], into);
    else
        be_both_ends(into);
    SUCCEEDS(datamover_array_free(&first));
    SUCCEEDS(datamover_array_free(&second));
    SUCCEEDS(datamover_layout_free(&by_rows));
    SUCCEEDS(datamover_layout_free(&by_columns));
    return finish();
}

/* SPDX-License-Identifier: BSD-3-Clause
 * C interface of migrations: several columns, overlap with computation, the way back, and errors
 * of one process that all processes return. */
#include <datamover/distribute.h>

#include "c_test.h"

enum { most = 64 };

/* What process `p` gives, which every process can tell; -1 drops. */
static int elems_of(int p) {
    return (29 * p + 17) % 41;
}
static int64_t target_of(int p, int i) {
    return (i * i + 3 * i + 5 * p) % (size + 1) - 1;
}

typedef struct record {
    int64_t target;
    int id;
    float value;
} record;

static int fill(record* records, float* pairs) {
    const int n = elems_of(rank);
    int i = 0;
    for (i = 0; i < n; ++i) {
        records[i].target = target_of(rank, i);
        records[i].id = 100 * rank + i;
        records[i].value = (float)i;
        /* Backwards. */
        pairs[2 * (n - 1 - i)] = (float)rank;
        pairs[2 * (n - 1 - i) + 1] = (float)i;
    }
    return n;
}

static void check_arrivals(const int* ids, const float* pairs, int64_t received) {
    int64_t k = 0;
    int p = 0, i = 0;
    for (p = 0; p < size; ++p)
        for (i = 0; i < elems_of(p); ++i) {
            if (target_of(p, i) != rank) continue;
            CHECK(k < received && ids[k] == 100 * p + i);
            CHECK(k < received && pairs[2 * k] == (float)p && pairs[2 * k + 1] == (float)i);
            ++k;
        }
    CHECK(k == received);
}

static void moves_columns(void) {
    record records[most];
    float pairs[2 * most], home[2 * most];
    const int n = fill(records, pairs);
    const datamover_targets targets = {n, 0, &records[0].target, DATAMOVER_INT64, sizeof(record)};
    datamover_migration* d = NULL;
    int64_t given = -1, received = -1;
    int done = 0, round = 0, i = 0;
    SUCCEEDS(datamover_migration_create(MPI_COMM_WORLD, &targets, NULL, &d));
    SUCCEEDS(datamover_migration_elems(d, &given, &received));
    CHECK(given == n && received >= 0);
    int* ids = calloc((size_t)received + 1, sizeof *ids);
    float* arrived = calloc((size_t)received + 1, 2 * sizeof *arrived);
    const datamover_column columns[2] = {
        {&records[0].id, n, sizeof(int), sizeof(record), DATAMOVER_INT32},
        {n ? &pairs[2 * (n - 1)] : pairs, n, 2 * sizeof(float), -2 * (int)sizeof(float),
         DATAMOVER_FLOAT32}};
    const datamover_room results[2] = {{ids, received}, {arrived, received}};
    for (round = 0; round < 3; ++round) {
        memset(ids, 0, (size_t)received * sizeof *ids);
        memset(arrived, 0, 2 * (size_t)received * sizeof *arrived);
        if (round == 0) {
            SUCCEEDS(datamover_migration_move(d, 2, columns, results));
        } else {
            SUCCEEDS(datamover_migration_start(d, 2, columns, results));
            for (done = 0; round == 1 && !done;) SUCCEEDS(datamover_migration_test(d, &done));
            if (round == 2) SUCCEEDS(datamover_migration_wait(d, -1));
        }
        check_arrivals(ids, arrived, received);
    }
    for (i = 0; i < 2 * received; ++i) arrived[i] *= 3;
    const datamover_column back = {arrived, received, 2 * sizeof(float), 0, DATAMOVER_FLOAT32};
    const datamover_room room = {home, most};
    SUCCEEDS(datamover_migration_reverse(d, 1, &back, &room, NULL));
    for (i = 0; i < n; ++i) {
        const int dropped = target_of(rank, i) < 0;
        CHECK(home[2 * i] == (float)(dropped ? 0 : 3 * rank));
        CHECK(home[2 * i + 1] == (float)(dropped ? 0 : 3 * i));
    }
    SUCCEEDS(datamover_migration_free(&d));
    CHECK(d == NULL);
    SUCCEEDS(datamover_migration_free(&d));
    free(ids);
    free(arrived);
}

/* Every element goes to all processes; their answers are summed. */
static void sums_answers(void) {
    int32_t* all = calloc((size_t)size, sizeof *all);
    int64_t value = rank + 1, sum = -1, given = 0, received = 0;
    int64_t* arrived = calloc((size_t)size, sizeof *arrived);
    datamover_migration* d = NULL;
    int p = 0;
    for (p = 0; p < size; ++p) all[p] = p;
    const datamover_targets targets = {1, size, all, DATAMOVER_INT32, 0};
    const datamover_migration_options options = {64, "partition", 0};
    SUCCEEDS(datamover_migration_create(MPI_COMM_WORLD, &targets, &options, &d));
    SUCCEEDS(datamover_migration_elems(d, &given, &received));
    CHECK(received == size);
    const datamover_column column = {&value, 1, 8, 0, DATAMOVER_INT64};
    const datamover_room room = {arrived, received};
    SUCCEEDS(datamover_migration_move(d, 1, &column, &room));
    for (p = 0; p < size; ++p) CHECK(arrived[p] == p + 1);
    for (p = 0; p < size; ++p) arrived[p] *= rank + 1;
    const datamover_column answers = {arrived, received, 8, 0, DATAMOVER_INT64};
    const datamover_room one = {&sum, 1};
    SUCCEEDS(datamover_migration_reverse(d, 1, &answers, &one, "add"));
    CHECK(sum == value * size * (size + 1) / 2);
    SUCCEEDS(datamover_migration_free(&d));
    free(all);
    free(arrived);
}

static void tells_errors(void) {
    const int guilty = rank == size - 1;
    int64_t to[2], value[2] = {1, 2}, got[2] = {0, 0}, given = 0, received = 0;
    datamover_migration *d = NULL, *none = NULL;
    int done = 0;
    to[0] = to[1] = rank;
    datamover_targets targets = {2, 0, to, DATAMOVER_INT64, 0};
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_migration_create(MPI_COMM_WORLD, &targets, NULL, guilty ? NULL : &none));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_migration_create(MPI_COMM_WORLD, guilty ? NULL : &targets, NULL, &none));
    if (guilty) targets.elems = -1;
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_migration_create(MPI_COMM_WORLD, &targets, NULL, &none));
    targets.elems = 2;
    if (guilty) targets.data = NULL;
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_migration_create(MPI_COMM_WORLD, &targets, NULL, &none));
    targets.data = to;
    if (guilty) targets.type = DATAMOVER_FLOAT64;
    FAILS(DATAMOVER_WRONG_TYPE, datamover_migration_create(MPI_COMM_WORLD, &targets, NULL, &none));
    targets.type = DATAMOVER_INT64;
    if (guilty) to[1] = size;
    FAILS(DATAMOVER_OUT_OF_RANGE,
          datamover_migration_create(MPI_COMM_WORLD, &targets, NULL, &none));
    to[1] = rank;
    CHECK(none == NULL);
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_migration_elems(none, &given, &received));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_migration_wait(none, -1));

    SUCCEEDS(datamover_migration_create(MPI_COMM_WORLD, &targets, NULL, &d));
    datamover_column column = {value, guilty ? 3 : 2, 8, 0, DATAMOVER_INT64};
    datamover_room room = {got, 2};
    FAILS(DATAMOVER_MISMATCH, datamover_migration_move(d, 1, &column, &room));
    CHECK(strstr(datamover_error_message(), "3 elements") != NULL);
    SUCCEEDS(datamover_migration_start(d, 1, &column, &room));
    FAILS(DATAMOVER_MISMATCH, datamover_migration_wait(d, -1));
    column.elems = 2;
    room.elems = guilty ? 1 : 2;
    FAILS(DATAMOVER_MISMATCH, datamover_migration_move(d, 1, &column, &room));
    room.elems = guilty ? -1 : 2;
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_migration_move(d, 1, &column, &room));
    room.elems = 2;
    column.elem_bytes = guilty ? -8 : 8;
    FAILS(DATAMOVER_WRONG_TYPE, datamover_migration_move(d, 1, &column, &room));
    column.elem_bytes = 8;
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_migration_move(d, guilty ? -1 : 1, &column, &room));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_migration_move(d, 1, guilty ? NULL : &column, &room));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_migration_reverse(d, 1, &column, &room, guilty ? "divide" : "add"));
    /* A library on top could not say what it brings. */
    if (guilty) {
        FAILS(DATAMOVER_IO,
              datamover_migration_join_as_failed(d, DATAMOVER_IO, "no file of particles"));
    } else {
        FAILS(DATAMOVER_IO, datamover_migration_move(d, 1, &column, &room));
    }
    CHECK(strstr(datamover_error_message(), "no file of particles") != NULL);
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          guilty ? datamover_migration_join_as_failed(d, DATAMOVER_SUCCESS, NULL)
                 : datamover_migration_move(d, 1, &column, &room));
    if (guilty) {
        datamover_error_set(DATAMOVER_IO, "nothing to start with");
        SUCCEEDS(datamover_migration_start_as_failed(d, DATAMOVER_IO, NULL));
    } else {
        SUCCEEDS(datamover_migration_start(d, 1, &column, &room));
    }
    FAILS(DATAMOVER_IO, datamover_migration_wait(d, -1));
    CHECK(strstr(datamover_error_message(), "nothing to start with") != NULL);
    FAILS(DATAMOVER_INVALID_STATE, datamover_migration_test(d, &done));
    CHECK(got[0] == 0 && got[1] == 0);

    SUCCEEDS(datamover_migration_start(d, 1, &column, &room));
    FAILS(DATAMOVER_INVALID_STATE, datamover_migration_start(d, 1, &column, &room));
    SUCCEEDS(datamover_migration_wait(d, 60));
    CHECK(got[0] == 1 && got[1] == 2);
    SUCCEEDS(datamover_migration_free(&d));
}

int main(int argc, char** argv) {
    begin(&argc, &argv);
    moves_columns();
    sums_answers();
    tells_errors();
    return finish();
}

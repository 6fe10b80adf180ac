/* SPDX-License-Identifier: BSD-3-Clause
 * C interface of maps from keys and positions: elements are sent as the maps define. */
#include <datamover/distribute.h>

#include "c_test.h"

enum { most = 97 };

static uint64_t state = 12345;

static uint64_t drawn(uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

typedef struct record {
    int16_t key;
    double at[3];
    int64_t id;
} record;

/* No position lies between two cells. */
static void fill(record* records, int n) {
    int i = 0, d = 0;
    for (i = 0; i < n; ++i) {
        records[i].key = (int16_t)(drawn(400) - 200);
        records[i].id = 1000 * rank + i;
        for (d = 0; d < 3; ++d) records[i].at[d] = (double)drawn(1400) / 1000 - 0.1997;
    }
}

/* Elements arrive where `right` says, and nowhere else: their ranks, and a migration by keys. */
static void goes_where(const datamover_target_map* map, const datamover_keys* keys,
                       const record* records, const int64_t* right) {
    const int n = (int)keys->elems;
    int64_t ranks[most], given = 0, received = 0, sum = 0, sums[2] = {0, 0}, here = 0;
    int i = 0;
    datamover_migration* d = NULL;
    SUCCEEDS(datamover_target_map_ranks(map, keys, ranks));
    for (i = 0; i < n; ++i) CHECK(ranks[i] == right[i]);
    SUCCEEDS(datamover_migration_create_by_keys(MPI_COMM_WORLD, map, keys, NULL, &d));
    SUCCEEDS(datamover_migration_elems(d, &given, &received));
    CHECK(given == n);
    record* arrived = calloc((size_t)received + 1, sizeof *arrived);
    int64_t* where = calloc((size_t)received + 1, sizeof *where);
    const datamover_column column = {records, n, sizeof(record), 0, DATAMOVER_OPAQUE};
    const datamover_room room = {arrived, received};
    SUCCEEDS(datamover_migration_move(d, 1, &column, &room));
    /* The map tells this rank for all that arrived. */
    datamover_keys again = *keys;
    again.elems = received;
    again.data = (const char*)arrived + ((const char*)keys->data - (const char*)records);
    SUCCEEDS(datamover_target_map_ranks(map, &again, where));
    for (i = 0; i < received; ++i) CHECK(where[i] == rank);
    /* Nothing is lost or doubled. */
    for (i = 0; i < received; ++i) here += arrived[i].id;
    for (i = 0; i < n; ++i) sum += right[i] < 0 ? 0 : records[i].id;
    sums[0] = sum - here;
    MPI_Allreduce(&sums[0], &sums[1], 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sums[1] == 0);
    SUCCEEDS(datamover_migration_free(&d));
    free(arrived);
    free(where);
}

static void by_integers(void) {
    record records[most];
    const int n = 40 + 7 * rank % 50;
    int64_t right[most], limits[64];
    uint64_t unsigned_limits[64];
    double real_limits[64];
    int i = 0, p = 0;
    datamover_target_map* map = NULL;
    const datamover_keys keys = {n, 0, &records[0].key, DATAMOVER_INT16, sizeof(record)};
    fill(records, n);

    SUCCEEDS(datamover_target_map_create_modulo(size, &map));
    for (i = 0; i < n; ++i) right[i] = ((records[i].key % size) + size) % size;
    goes_where(map, &keys, records, right);
    SUCCEEDS(datamover_target_map_free(&map));
    CHECK(map == NULL);
    SUCCEEDS(datamover_target_map_free(&map));

    SUCCEEDS(datamover_target_map_create_block(-200, 400, size, &map));
    const int64_t block = (400 + size - 1) / size;
    for (i = 0; i < n; ++i) right[i] = (records[i].key + 200) / block;
    goes_where(map, &keys, records, right);
    SUCCEEDS(datamover_target_map_free(&map));

    state = 55; /* the same on all processes */
    for (p = 0; p < size - 1; ++p) limits[p] = (int64_t)drawn(7) + (p ? limits[p - 1] : -150);
    for (p = 0; p < size - 1; ++p) real_limits[p] = (double)limits[p] - 0.5;
    for (i = 0; i < n; ++i)
        for (p = 0, right[i] = 0; p < size - 1; ++p) right[i] += records[i].key >= limits[p];
    SUCCEEDS(datamover_target_map_create_splitters(DATAMOVER_INT64, limits, size, &map));
    goes_where(map, &keys, records, right);
    SUCCEEDS(datamover_target_map_free(&map));
    SUCCEEDS(datamover_target_map_create_splitters(DATAMOVER_FLOAT64, real_limits, size, &map));
    goes_where(map, &keys, records, right);
    SUCCEEDS(datamover_target_map_free(&map));

    /* Integers that no double tells apart. */
    const uint64_t big = UINT64_C(1) << 63;
    uint64_t wide[2] = {big, big + 1};
    int64_t told[2] = {-9, -9};
    for (p = 0; p < size - 1; ++p) unsigned_limits[p] = big + 1;
    const datamover_keys two = {2, 0, wide, DATAMOVER_UINT64, 0};
    SUCCEEDS(datamover_target_map_create_splitters(DATAMOVER_UINT64, unsigned_limits, size, &map));
    SUCCEEDS(datamover_target_map_ranks(map, &two, told));
    CHECK(told[0] == 0 && told[1] == size - 1);
    SUCCEEDS(datamover_target_map_free(&map));
}

/* The number of the cell along one dimension of [0, 1). */
static int64_t cell_at(double x, int64_t cells, int periodic) {
    int64_t cell = 0;
    if (periodic) x -= (double)(int64_t)x - (x < 0);
    if (x <= 0) return 0;
    cell = (int64_t)(x * (double)cells);
    return cell < cells ? cell : cells - 1;
}

static void by_cells(void) {
    record records[most];
    const int n = 30 + 11 * rank % 60;
    const double lo[3] = {0, 0, 0}, hi[3] = {1, 1, 1};
    const int64_t counts[3] = {2, 4, 8};
    int64_t right[most], owners[64], c = 0;
    int i = 0, periodic = 0;
    datamover_target_map* map = NULL;
    const datamover_keys keys = {n, 3, records[0].at, DATAMOVER_FLOAT64, sizeof(record)};
    fill(records, n);
    state = 99; /* the same on all processes */
    for (c = 0; c < 64; ++c) owners[c] = (int64_t)drawn((uint64_t)size + 1) - 1;
    for (periodic = 0; periodic < 2; ++periodic) {
        const datamover_cell_box box = {3, lo, hi, counts, periodic};
        SUCCEEDS(datamover_target_map_create_cells(&box, NULL, owners, size, &map));
        for (i = 0; i < n; ++i) {
            const double* x = records[i].at;
            right[i] = owners[(cell_at(x[0], 2, periodic) * 4 + cell_at(x[1], 4, periodic)) * 8 +
                              cell_at(x[2], 8, periodic)];
        }
        goes_where(map, &keys, records, right);
        SUCCEEDS(datamover_target_map_free(&map));
    }
    /* Equal parts of Z order: the bits of three numbers, dimension 0 the highest. */
    const int64_t two[3] = {2, 2, 2};
    const datamover_cell_box cube = {3, lo, hi, two, 0};
    SUCCEEDS(datamover_target_map_create_cells(&cube, "morton", NULL, size, &map));
    for (i = 0; i < n; ++i) {
        const double* x = records[i].at;
        right[i] =
            (cell_at(x[0], 2, 0) * 4 + cell_at(x[1], 2, 0) * 2 + cell_at(x[2], 2, 0)) * size / 8;
    }
    goes_where(map, &keys, records, right);
    SUCCEEDS(datamover_target_map_free(&map));
}

static void tells_errors(void) {
    const int guilty = rank == size - 1;
    int64_t key = 5, to = 0, cells[2] = {2, 2}, owners[4] = {0, 0, 0, size};
    double nothing = 0, lo[2] = {0, 0}, hi[2] = {1, 1}, falling[2] = {2, 1};
    datamover_target_map* map = NULL;
    datamover_migration* d = NULL;
    datamover_keys keys = {1, 0, &key, DATAMOVER_INT64, 0};
    datamover_cell_box box = {2, lo, hi, cells, 0};
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_target_map_create_modulo(0, &map));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_target_map_create_modulo(1, NULL));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_target_map_create_block(0, -1, 1, &map));
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_target_map_create_block(1, INT64_MAX, 1, &map));
    FAILS(DATAMOVER_WRONG_TYPE,
          datamover_target_map_create_splitters(DATAMOVER_INT32, falling, 3, &map));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_target_map_create_splitters(DATAMOVER_FLOAT64, falling, 3, &map));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_target_map_create_splitters(DATAMOVER_FLOAT64, NULL, 3, &map));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_target_map_create_splitters(DATAMOVER_FLOAT64, NULL, 0, &map));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_target_map_create_cells(NULL, NULL, NULL, 1, &map));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_target_map_create_cells(&box, "peano", NULL, 1, &map));
    FAILS(DATAMOVER_OUT_OF_RANGE,
          datamover_target_map_create_cells(&box, NULL, owners, size, &map));
    box.dims = 0;
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_target_map_create_cells(&box, NULL, NULL, 1, &map));
    box.dims = 2;
    hi[1] = 0;
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_target_map_create_cells(&box, NULL, NULL, 1, &map));
    cells[0] = INT64_C(1) << 40;
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_target_map_create_cells(&box, NULL, NULL, 1, &map));
    CHECK(map == NULL);
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_target_map_ranks(map, &keys, &to));

    SUCCEEDS(datamover_target_map_create_block(0, 5, size, &map));
    SUCCEEDS(datamover_target_map_ranks(map, &keys, &to));
    CHECK(to == DATAMOVER_NO_TARGET);
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_target_map_ranks(map, &keys, NULL));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_target_map_ranks(map, NULL, &to));
    keys.dims = 2;
    FAILS(DATAMOVER_MISMATCH, datamover_target_map_ranks(map, &keys, &to));
    keys.dims = -1;
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_target_map_ranks(map, &keys, &to));
    keys.dims = 1;

    /* What one process has wrong, all are told. */
    key = guilty ? 5 : 0;
    FAILS(DATAMOVER_OUT_OF_RANGE,
          datamover_migration_create_by_keys(MPI_COMM_WORLD, map, &keys, NULL, &d));
    CHECK(strstr(datamover_error_message(), "no target") != NULL);
    key = 0;
    if (guilty) keys.type = DATAMOVER_FLOAT64, keys.data = &nothing;
    FAILS(DATAMOVER_WRONG_TYPE,
          datamover_migration_create_by_keys(MPI_COMM_WORLD, map, &keys, NULL, &d));
    keys.type = DATAMOVER_INT64;
    keys.data = guilty ? NULL : &key;
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_migration_create_by_keys(MPI_COMM_WORLD, map, &keys, NULL, &d));
    keys.data = &key;
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_migration_create_by_keys(MPI_COMM_WORLD, guilty ? NULL : map, &keys, NULL, &d));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_migration_create_by_keys(MPI_COMM_WORLD, map, guilty ? NULL : &keys, NULL, &d));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_migration_create_by_keys(MPI_COMM_WORLD, map, &keys, NULL, guilty ? NULL : &d));
    CHECK(d == NULL);
    SUCCEEDS(datamover_migration_create_by_keys(MPI_COMM_WORLD, map, &keys, NULL, &d));
    SUCCEEDS(datamover_migration_free(&d));
    SUCCEEDS(datamover_target_map_free(&map));
}

int main(int argc, char** argv) {
    begin(&argc, &argv);
    state += (uint64_t)rank;
    by_integers();
    by_cells();
    tells_errors();
    return finish();
}

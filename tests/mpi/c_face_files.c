/* SPDX-License-Identifier: BSD-3-Clause */
/* C interface of files: saves and loads distributed arrays. With a directory as argument, the
 * program loads given.npy from it (5 x 8 numbers) and writes c.npy and c.raw, which another program
 * reads. */
#include <unistd.h>

#include "c_test.h"

enum { rows = 5, columns = 8 };

static double value_at(int64_t row, int64_t column) {
    return 100.0 * (double)row + (double)column / 4;
}

static void number(void* element, int64_t row, int64_t column) {
    *(double*)element = value_at(row, column);
}
static void clear(void* element, int64_t row, int64_t column) {
    *(double*)element = -1 - (double)(row + column);
}
static void expect_number(void* element, int64_t row, int64_t column) {
    CHECK(*(double*)element == value_at(row, column));
}
static void expect_given(void* element, int64_t row, int64_t column) {
    CHECK(*(double*)element == (double)(10 * row + column));
}

static datamover_array* doubles(const datamover_layout* layout) {
    datamover_array* array = NULL;
    SUCCEEDS(datamover_array_create(MPI_COMM_WORLD, layout, DATAMOVER_FLOAT64, 8, 0, NULL, NULL,
                                    &array));
    return array;
}

int main(int argc, char** argv) {
    char folder[200] = "/tmp/datamover-c-files-XXXXXX", npy[256], raw[256], given[256];
    begin(&argc, &argv);
    if (argc > 1)
        snprintf(folder, sizeof folder, "%s", argv[1]);
    else if (rank == 0)
        CHECK(mkdtemp(folder) != NULL);
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    snprintf(npy, sizeof npy, "%s/c.npy", folder);
    snprintf(raw, sizeof raw, "%s/c.raw", folder);
    snprintf(given, sizeof given, "%s/given.npy", folder);

    datamover_layout* by_rows = block_cyclic(rows, columns, "(cyclic, *)");
    datamover_layout* by_columns = block_cyclic(rows, columns, "(*, cyclic(3))");
    datamover_array *a = doubles(by_rows), *b = doubles(by_columns), *none = NULL;
    const int64_t last[1] = {size - 1}, beyond[1] = {size};
    const datamover_file_options in_rounds = {DATAMOVER_FILE_BY_NAME, NULL, 0, 100, 1};
    const datamover_file_options by_last = {DATAMOVER_FILE_RAW, last, 1, 0, 0};
    const datamover_file_options by_none = {DATAMOVER_FILE_RAW, beyond, 1, 0, 0};
    const datamover_file_options no_format = {(datamover_file_format)7, NULL, 0, 0, 0};

    visit_elements(by_rows, a, number);
    SUCCEEDS(datamover_save(MPI_COMM_WORLD, npy, a, NULL));
    FAILS(DATAMOVER_IO, datamover_save(MPI_COMM_WORLD, npy, a, NULL));
    SUCCEEDS(datamover_save(MPI_COMM_WORLD, npy, a, &in_rounds));
    SUCCEEDS(datamover_save(MPI_COMM_WORLD, raw, a, &by_last));
    visit_elements(by_columns, b, clear);
    SUCCEEDS(datamover_load(MPI_COMM_WORLD, npy, b, &in_rounds));
    visit_elements(by_columns, b, expect_number);
    visit_elements(by_columns, b, clear);
    SUCCEEDS(datamover_load(MPI_COMM_WORLD, raw, b, NULL));
    visit_elements(by_columns, b, expect_number);

    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_save(MPI_COMM_WORLD, NULL, a, NULL));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_load(MPI_COMM_WORLD, npy, none, NULL));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_load(MPI_COMM_WORLD, npy, rank == size - 1 ? none : b, NULL));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_save(MPI_COMM_WORLD, npy, a, &no_format));
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_load(MPI_COMM_WORLD, raw, b, &by_none));
    if (argc > 1) {
        SUCCEEDS(datamover_load(MPI_COMM_WORLD, given, b, NULL));
        visit_elements(by_columns, b, expect_given);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) CHECK(unlink(npy) == 0 && unlink(raw) == 0 && rmdir(folder) == 0);
    }
    SUCCEEDS(datamover_array_free(&a));
    SUCCEEDS(datamover_array_free(&b));
    SUCCEEDS(datamover_layout_free(&by_rows));
    SUCCEEDS(datamover_layout_free(&by_columns));
    return finish();
}

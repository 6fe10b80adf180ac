/* SPDX-License-Identifier: BSD-3-Clause */
/* C interface: saved plans, replicas, checks and reports work as the header documents. */
#include "c_test.h"

static void number(void* element, int64_t row, int64_t column) {
    *(int64_t*)element = 1000 * row + column;
}
static void nothing(void* element, int64_t row, int64_t column) {
    (void)row, (void)column;
    *(int64_t*)element = 0;
}
static void expect_number(void* element, int64_t row, int64_t column) {
    CHECK(*(int64_t*)element == 1000 * row + column);
}

static void move_checked(const datamover_plan* plan, const datamover_layout* from,
                         const datamover_layout* to) {
    datamover_mover* mover = NULL;
    datamover_array *a = array_of(from, 0), *b = array_of(to, 1);
    datamover_mover_options options = {0};
    options.check = 1;
    visit_elements(from, a, number);
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, plan, a, b, &options, &mover));
    SUCCEEDS(datamover_mover_run(mover));
    visit_elements(to, b, expect_number);
    SUCCEEDS(datamover_mover_free(&mover));
    datamover_array_free(&a), datamover_array_free(&b);
}

static void test_saved_plans(void) {
    datamover_layout *from = block_cyclic(13, 9, "(block, *)"),
                     *to = block_cyclic(13, 9, "(*, cyclic(2))");
    datamover_plan *plan = NULL, *again = NULL, *loaded = NULL;
    int64_t bytes = 0;
    char path[64];
    SUCCEEDS(datamover_redistribute(from, to, NULL, &plan));
    SUCCEEDS(datamover_plan_to_bytes(plan, NULL, 0, &bytes));
    char* saved = malloc((size_t)bytes);
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_plan_to_bytes(plan, saved, bytes - 1, &bytes));
    SUCCEEDS(datamover_plan_to_bytes(plan, saved, bytes, &bytes));
    SUCCEEDS(datamover_plan_from_bytes(saved, bytes, &again));
    move_checked(again, from, to);
    saved[bytes / 2] ^= 1;
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_plan_from_bytes(saved, bytes, &loaded));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_plan_from_bytes(NULL, bytes, &loaded));

    snprintf(path, sizeof path, "c_face_plans-%d-%d.plan", size, rank);
    SUCCEEDS(datamover_plan_save(plan, path));
    SUCCEEDS(datamover_plan_load(path, &loaded));
    move_checked(loaded, from, to);
    CHECK(remove(path) == 0);
    datamover_plan_free(&again);
    FAILS(DATAMOVER_IO, datamover_plan_load(path, &again));
    CHECK(again == NULL && strstr(datamover_error_message(), path) != NULL);
    free(saved);
    datamover_plan_free(&plan), datamover_plan_free(&loaded);
    datamover_layout_free(&from), datamover_layout_free(&to);
}

static void test_replicas(void) {
    const int64_t shape[2] = {8, 6};
    datamover_block_cyclic_options options = {0};
    datamover_layout *copies = NULL, *rows = block_cyclic(8, 6, "(block, *)");
    datamover_plan *there = NULL, *back = NULL;
    int64_t blocks = 0, peer = -1, elems = -1, count = -1;
    options.replicas = size;
    SUCCEEDS(datamover_layout_create_block_cyclic(2, shape, "(*, *)", size, &options, &copies));
    SUCCEEDS(datamover_layout_num_blocks(copies, &blocks));
    CHECK(blocks == size);
    SUCCEEDS(datamover_redistribute(rows, copies, NULL, &there));
    SUCCEEDS(datamover_plan_reverse(there, &back));
    move_checked(there, rows, copies);
    move_checked(back, copies, rows);
    /* Everybody has a copy: nobody sends. */
    SUCCEEDS(datamover_plan_outgoing(back, 0, &peer, &elems, 1, &count));
    CHECK(count == 1 && peer == 0 && elems == 6 * ((8 + size - 1) / size));
    SUCCEEDS(datamover_plan_incoming(there, size - 1, NULL, NULL, 0, &count));
    CHECK(count >= 1 && count <= size);
    if (count > 1)
        FAILS(DATAMOVER_OUT_OF_RANGE,
              datamover_plan_incoming(there, size - 1, &peer, NULL, 1, &count));
    options.replicas = size + 1;
    datamover_layout_free(&copies);
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_layout_create_block_cyclic(2, shape, "(*, *)", size, &options, &copies));
    datamover_plan_free(&there), datamover_plan_free(&back), datamover_layout_free(&rows);
}

static void expect_sum(void* element, int64_t row, int64_t column) {
    CHECK(*(int64_t*)element == size * (1000 * row + column));
}

/* Everybody's copy of a row back to who had it, summed; and two plans in one. */
static void test_adjoints_and_compositions(void) {
    const int64_t shape[2] = {8, 6};
    datamover_block_cyclic_options options = {0};
    datamover_mover_options sums = {0};
    datamover_layout *copies = NULL, *rows = block_cyclic(8, 6, "(cyclic, *)"),
                     *columns = block_cyclic(8, 6, "(*, block)");
    datamover_plan *there = NULL, *adjoint = NULL, *turn = NULL, *both = NULL;
    datamover_mover* mover = NULL;
    options.replicas = size;
    SUCCEEDS(datamover_layout_create_block_cyclic(2, shape, "(*, *)", size, &options, &copies));
    SUCCEEDS(datamover_redistribute(rows, copies, NULL, &there));
    SUCCEEDS(datamover_plan_adjoint(there, &adjoint));
    datamover_array *a = array_of(copies, 0), *b = array_of(rows, 0);
    visit_elements(copies, a, number);
    visit_elements(rows, b, nothing);
    sums.op = "add";
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, adjoint, a, b, &sums, &mover));
    SUCCEEDS(datamover_mover_run(mover));
    visit_elements(rows, b, expect_sum);
    SUCCEEDS(datamover_mover_free(&mover));

    SUCCEEDS(datamover_redistribute(columns, rows, NULL, &turn));
    SUCCEEDS(datamover_plan_compose(turn, there, &both));
    move_checked(both, columns, copies);
    datamover_plan_free(&both);
    if (size > 1) FAILS(DATAMOVER_MISMATCH, datamover_plan_compose(there, there, &both));
    CHECK(both == NULL);
    datamover_plan_free(&there), datamover_plan_free(&adjoint), datamover_plan_free(&turn);
    datamover_array_free(&a), datamover_array_free(&b);
    datamover_layout_free(&copies), datamover_layout_free(&rows), datamover_layout_free(&columns);
}

/* Blocks go to other processes. */
static void test_other_owners(void) {
    const int64_t lo[2] = {0, 0}, hi[2] = {4 * (int64_t)size, 5}, grid[2] = {size, 1};
    datamover_layout *blocks = NULL, *balanced = NULL, *none = NULL,
                     *rows = block_cyclic(8, 6, "(block, *)");
    datamover_plan* plan = NULL;
    int64_t* owners = malloc((size_t)size * sizeof *owners);
    int64_t owner = -1, peer = -1, elems = -1, count = -1;
    for (int b = 0; b < size; ++b) owners[b] = size - 1 - b;
    SUCCEEDS(datamover_layout_create_uniform(2, lo, hi, grid, size, &blocks));
    SUCCEEDS(datamover_layout_with_owners(blocks, owners, size, &balanced));
    SUCCEEDS(datamover_layout_owner(balanced, 0, &owner));
    CHECK(owner == size - 1);
    SUCCEEDS(datamover_redistribute(blocks, balanced, NULL, &plan));
    SUCCEEDS(datamover_plan_outgoing(plan, rank, &peer, &elems, 1, &count));
    CHECK(count == 1 && peer == size - 1 - rank && elems == 20);
    owners[0] = size;
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_layout_with_owners(blocks, owners, size, &none));
    FAILS(DATAMOVER_UNSUPPORTED, datamover_layout_with_owners(rows, owners, size, &none));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_layout_with_owners(NULL, owners, size, &none));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_layout_with_owners(blocks, NULL, size, &none));
    CHECK(none == NULL);
    free(owners);
    datamover_plan_free(&plan), datamover_layout_free(&rows);
    datamover_layout_free(&blocks), datamover_layout_free(&balanced);
}

static void test_checks_and_reports(void) {
    const int64_t lo[2] = {0, 0}, hi[2] = {1, 2};
    const int64_t left[2] = {2 * size, 3}, right[2] = {0, 1}, all[2] = {2 * size, 4};
    datamover_layout* rows = block_cyclic(2 * size, 4, "(block, *)");
    datamover_array *a = array_of(rows, 0), *b = array_of(rows, 0);
    datamover_plan *plan = NULL, *shifted = NULL;
    datamover_mover* mover = NULL;
    datamover_mover_options options = {0};
    datamover_mover_pair pairs[2];
    datamover_mover_counters counters;
    int64_t count = 0;
    SUCCEEDS(datamover_redistribute(rows, rows, NULL, &plan));
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, plan, a, b, NULL, &mover));
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_mover_pairs(mover, pairs, 0, &count));
    SUCCEEDS(datamover_mover_pairs(mover, NULL, 0, &count));
    CHECK(count == 1 || count == 2);
    SUCCEEDS(datamover_mover_pairs(mover, pairs, 2, &count));
    CHECK(pairs[0].peer == rank && pairs[0].elems == 8 && pairs[0].bytes == 64);
    CHECK(strcmp(pairs[0].transport, "self") == 0 && strlen(pairs[0].kernel) > 0);
    SUCCEEDS(datamover_mover_counters_get(mover, &counters));
    CHECK(counters.extra_bytes >= 0 && counters.bytes_kept == 64);
    SUCCEEDS(datamover_mover_free(&mover));

    options.check = 1;
    SUCCEEDS(datamover_redistribute_section(rows, lo, left, rows, right, all, NULL, &shifted));
    FAILS(DATAMOVER_INVALID_ARGUMENT, /* reads what it writes */
          datamover_mover_create(MPI_COMM_WORLD, shifted, a, a, &options, &mover));
    CHECK(strstr(datamover_error_message(), "block 0") != NULL);
    /* Nothing moves where everything would go to itself. */
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, plan, a, a, &options, &mover));
    SUCCEEDS(datamover_mover_pairs(mover, NULL, 0, &count));
    CHECK(count == 0);
    SUCCEEDS(datamover_mover_free(&mover));
    /* Only the last process adds a term. */
    if (rank == size - 1) SUCCEEDS(datamover_plan_add_section(plan, 0, lo, hi, 0, lo, hi, NULL));
    FAILS(size > 1 ? DATAMOVER_MISMATCH : DATAMOVER_INVALID_ARGUMENT,
          datamover_mover_create(MPI_COMM_WORLD, plan, a, b, &options, &mover));
    CHECK(strstr(datamover_error_message(),
                 size > 1 ? "numbers of terms: 1 on process 0, 2 on process" : "twice") != NULL);
    CHECK(mover == NULL);
    datamover_plan_free(&plan), datamover_plan_free(&shifted);
    datamover_array_free(&a), datamover_array_free(&b);
    datamover_layout_free(&rows);
}

static void test_tuning(void) {
    datamover_layout *rows = block_cyclic((int64_t)2 * size, 4, "(block, *)"),
                     *dealt = block_cyclic((int64_t)2 * size, 4, "(cyclic, *)");
    datamover_array *a = array_of(rows, 0), *b = array_of(dealt, 0);
    datamover_plan* plan = NULL;
    datamover_mover* mover = NULL;
    datamover_mover_trial trials[32];
    int64_t count = -1, strides[2], i = 0;
    void *from = NULL, *to = NULL;
    int able = 0, chosen = 0;
    setenv("DATAMOVER_TUNING_FILE", "", 1);
    SUCCEEDS(datamover_redistribute(rows, dealt, NULL, &plan));
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, plan, a, b, NULL, &mover));
    SUCCEEDS(datamover_mover_trials(mover, NULL, 0, &count));
    CHECK(count == 0);
    SUCCEEDS(datamover_mover_tune(MPI_COMM_WORLD, mover, 0.01));
    SUCCEEDS(datamover_mover_trials(mover, trials, 32, &count));
    CHECK(size == 1 ? count == 0 : count >= 4);
    for (i = 0; i < count; ++i) {
        able += trials[i].why_not[0] == 0 && trials[i].seconds > 0 && trials[i].rounds > 0;
        chosen += trials[i].chosen;
        CHECK(!trials[i].chosen || trials[i].passed_over[0] == 0);
    }
    CHECK(size == 1 || (able >= 4 && chosen == 1 && strcmp(trials[0].transport, "auto") == 0));
    if (size > 1) FAILS(DATAMOVER_OUT_OF_RANGE, datamover_mover_trials(mover, trials, 1, &count));
    SUCCEEDS(datamover_array_block(a, rank, &from, strides));
    SUCCEEDS(datamover_array_block(b, rank, &to, strides));
    for (i = 0; i < 8; ++i) ((int64_t*)from)[i] = 8 * rank + i;
    SUCCEEDS(datamover_mover_run(mover));
    for (i = 0; i < 8; ++i) CHECK(((int64_t*)to)[i] == 4 * (rank + i / 4 * size) + i % 4);
    /* What one process gets wrong all are told. */
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_mover_tune(MPI_COMM_WORLD, mover, rank == size - 1 ? -1.0 : 0.01));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_mover_tune(MPI_COMM_WORLD, rank == 0 ? NULL : mover, 0.01));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_mover_trials(NULL, NULL, 0, &count));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_mover_trials(mover, NULL, 0, NULL));
    SUCCEEDS(datamover_mover_run(mover));
    SUCCEEDS(datamover_mover_free(&mover));
    datamover_plan_free(&plan), datamover_array_free(&a), datamover_array_free(&b);
    datamover_layout_free(&rows), datamover_layout_free(&dealt);
}

/* A square on the first process; its old and its new place have some indices in common. */
static void test_a_window_that_moves(void) {
    const int64_t old_lo[2] = {-2, 0}, old_hi[2] = {2, 4}, new_lo[2] = {0, 1}, new_hi[2] = {4, 5},
                  inner_lo[2] = {0, 1}, inner_hi[2] = {2, 4}, first = 0,
                  strides[2] = {4 * sizeof(int64_t), sizeof(int64_t)};
    int64_t old_data[4][4], new_data[4][4], mine = rank == 0;
    datamover_block old_block = {0, old_data, strides, NULL, NULL},
                    new_block = {0, new_data, strides, NULL, NULL};
    datamover_layout *before = NULL, *after = NULL, *within = NULL;
    datamover_array *a = NULL, *b = NULL;
    datamover_plan *plan = NULL, *by_offset = NULL;
    datamover_mover* mover = NULL;
    for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < 4; ++j) old_data[i][j] = 100 * (i - 2) + j, new_data[i][j] = 7;
    SUCCEEDS(datamover_layout_create_floor_plan(2, 1, old_lo, old_hi, &first, size, &before));
    SUCCEEDS(datamover_layout_create_floor_plan(2, 1, new_lo, new_hi, &first, size, &after));
    SUCCEEDS(datamover_layout_create_floor_plan(2, 1, inner_lo, inner_hi, &first, size, &within));
    SUCCEEDS(datamover_array_of_blocks(before, DATAMOVER_INT64, 8, &old_block, mine, &a));
    SUCCEEDS(datamover_array_of_blocks(after, DATAMOVER_INT64, 8, &new_block, mine, &b));

    FAILS(DATAMOVER_MISMATCH, datamover_redistribute(before, after, NULL, &plan));
    CHECK(plan == NULL && strstr(datamover_error_message(), "index (2, 1) of the source") != NULL);
    FAILS(DATAMOVER_MISMATCH,
          datamover_redistribute_partial(before, NULL, NULL, after, NULL, NULL, NULL, 0, &plan));
    SUCCEEDS(datamover_redistribute(before, within, NULL, &plan));
    SUCCEEDS(datamover_plan_free(&plan));
    SUCCEEDS(datamover_redistribute_partial(before, NULL, NULL, after, NULL, NULL, NULL, 1, &plan));
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, plan, a, b, NULL, &mover));
    SUCCEEDS(datamover_mover_run(mover));
    for (int64_t i = 0; i < 4 && mine; ++i)
        for (int64_t j = 0; j < 4; ++j)
            CHECK(new_data[i][j] == (i < 2 && j < 3 ? 100 * i + j + 1 : 7));
    SUCCEEDS(datamover_mover_free(&mover));

    /* Sections correspond by offset. */
    SUCCEEDS(datamover_redistribute_partial(before, old_lo, old_hi, after, new_lo, new_hi, NULL, 1,
                                            &by_offset));
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, by_offset, a, b, NULL, &mover));
    SUCCEEDS(datamover_mover_run(mover));
    CHECK(!mine || memcmp(old_data, new_data, sizeof old_data) == 0);
    SUCCEEDS(datamover_mover_free(&mover));
    datamover_plan_free(&plan), datamover_plan_free(&by_offset);
    datamover_array_free(&a), datamover_array_free(&b);
    datamover_layout_free(&before), datamover_layout_free(&after), datamover_layout_free(&within);
}

int main(int argc, char** argv) {
    begin(&argc, &argv);
    test_saved_plans();
    test_replicas();
    test_adjoints_and_compositions();
    test_other_owners();
    test_a_window_that_moves();
    test_checks_and_reports();
    test_tuning();
    return finish();
}

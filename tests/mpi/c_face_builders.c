/* SPDX-License-Identifier: BSD-3-Clause */
/* C interface: builders of plans, and movers with phases, work as the header documents. */
#include "c_test.h"

static int64_t* element(const datamover_array* array, int64_t block, int64_t i, int64_t j) {
    int64_t strides[2];
    void* origin = NULL;
    SUCCEEDS(datamover_array_block(array, block, &origin, strides));
    return (int64_t*)(void*)((char*)origin + i * strides[0] + j * strides[1]);
}

static datamover_array* with_ghosts(const datamover_layout* layout, int64_t width) {
    const int64_t ghost[2] = {width, width};
    datamover_array* array = NULL;
    SUCCEEDS(datamover_array_create(MPI_COMM_WORLD, layout, DATAMOVER_INT64, 8, 0, ghost, ghost,
                                    &array));
    return array;
}

static void move(const datamover_plan* plan, const datamover_array* from,
                 const datamover_array* to) {
    datamover_mover* mover = NULL;
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, plan, from, to, NULL, &mover));
    SUCCEEDS(datamover_mover_run(mover));
    SUCCEEDS(datamover_mover_free(&mover));
}

static int64_t received(const datamover_plan* plan) {
    int64_t elems[64], peers[64], count = 0, sum = 0, i = 0;
    SUCCEEDS(datamover_plan_incoming(plan, rank, peers, elems, 64, &count));
    for (i = 0; i < count; ++i) sum += elems[i];
    return sum;
}

static void test_panels(void) {
    datamover_layout *columns = block_cyclic(4, (int64_t)2 * size, "(*, block)"), *of_panel = NULL;
    const int64_t lo[2] = {1, size - 1}, hi[2] = {4, size + 1};
    datamover_plan* plan = NULL;
    int64_t i = 0, j = 0, shape[2] = {0, 0};
    SUCCEEDS(datamover_panel_broadcast(columns, lo, hi, 1, &plan));
    SUCCEEDS(datamover_plan_layout(plan, DATAMOVER_DESTINATION, &of_panel));
    SUCCEEDS(datamover_layout_local_shape(of_panel, rank, shape));
    CHECK(shape[0] == 4 && shape[1] == 2);
    datamover_array *a = array_of(columns, 0), *panel = array_of(of_panel, 0);
    for (i = 0; i < 4; ++i)
        for (j = 0; j < 2; ++j) {
            *element(a, rank, i, j) = 100 * i + 2 * rank + j;
            *element(panel, rank, i, j) = -1;
        }
    move(plan, a, panel);
    for (i = 0; i < 4; ++i)
        for (j = 0; j < 2; ++j)
            CHECK(*element(panel, rank, i, j) == (i == 0 ? -1 : 100 * i + size - 1 + j));
    SUCCEEDS(datamover_plan_free(&plan));
    SUCCEEDS(datamover_layout_free(&of_panel));
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_panel_broadcast(columns, lo, hi, 2, &plan));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_panel_broadcast(columns, NULL, hi, 1, &plan));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_panel_broadcast(NULL, lo, hi, 1, &plan));
    datamover_array_free(&a), datamover_array_free(&panel), datamover_layout_free(&columns);
}

static void test_levels(void) {
    const int64_t lo[2] = {0, 0}, fine_hi[2] = {(int64_t)4 * size, 6}, grid[2] = {size, 1};
    const int64_t coarse_hi[2] = {(int64_t)2 * size, 2}, factor[2] = {2, 3}, width[2] = {1, 1};
    const int64_t owner[1] = {size - 1}, ones[2] = {1, 1};
    datamover_layout *fine = NULL, *coarse = NULL, *beneath = NULL;
    datamover_plan* plan = NULL;
    datamover_level_options options = {0};
    int64_t extents[2] = {0, 0}, block = 0, count = 0;
    SUCCEEDS(datamover_layout_create_uniform(2, lo, fine_hi, grid, size, &fine));
    SUCCEEDS(datamover_layout_create_floor_plan(2, 1, lo, coarse_hi, owner, size, &coarse));
    options.lower = width;
    options.upper = width;
    options.periodic_lo = lo;
    options.periodic_hi = coarse_hi;
    SUCCEEDS(datamover_prolongation(coarse, fine, factor, &options, &plan));
    SUCCEEDS(datamover_plan_layout(plan, DATAMOVER_DESTINATION, &beneath));
    SUCCEEDS(datamover_layout_block_extents(beneath, rank, extents));
    CHECK(extents[0] == 4 && extents[1] == 4);
    CHECK(received(plan) == 16);
    datamover_array *c = array_of(coarse, 0), *under = array_of(beneath, 0);
    SUCCEEDS(datamover_layout_blocks_of(coarse, rank, &block, 1, &count));
    if (count == 1) {
        int64_t i = 0, j = 0;
        for (i = 0; i < coarse_hi[0]; ++i)
            for (j = 0; j < 2; ++j) *element(c, 0, i, j) = 10 * i + j;
    }
    move(plan, c, under);
    {
        int64_t i = 0, j = 0;
        for (i = 0; i < 4; ++i)
            for (j = 0; j < 4; ++j)
                CHECK(*element(under, rank, i, j) ==
                      10 * ((2 * rank + i - 1 + coarse_hi[0]) % coarse_hi[0]) + (j + 1) % 2);
    }
    SUCCEEDS(datamover_plan_free(&plan));
    SUCCEEDS(datamover_restriction(fine, coarse, factor, NULL, &plan));
    CHECK(received(plan) == (rank == size - 1 ? 24 * size : 0));
    SUCCEEDS(datamover_plan_free(&plan));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_prolongation(coarse, fine, ones, NULL, &plan));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_prolongation(coarse, fine, NULL, NULL, &plan));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_restriction(fine, coarse, factor, NULL, NULL));
    datamover_array_free(&c), datamover_array_free(&under), datamover_layout_free(&fine);
    datamover_layout_free(&coarse), datamover_layout_free(&beneath);
}

static void test_steps_and_colors(void) {
    const int64_t lo[2] = {0, 0}, hi[2] = {4, 8}, half[2] = {2, 8}, step[2] = {2, 1};
    const int64_t grid[2] = {1, 1}, width[2] = {1, 1}, none[2] = {0, 1};
    datamover_layout *whole = NULL, *other = NULL;
    datamover_plan* plan = NULL;
    SUCCEEDS(datamover_layout_create_uniform(2, lo, hi, grid, size, &whole));
    SUCCEEDS(datamover_plan_create(whole, whole, &plan));
    SUCCEEDS(datamover_plan_add_strided_section(plan, 0, lo, hi, step, 0, lo, half, NULL, NULL));
    CHECK(received(plan) == (rank == 0 ? 16 : 0));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_plan_add_strided_section(plan, 0, lo, hi, none, 0, lo, half, NULL, NULL));
    FAILS(DATAMOVER_MISMATCH,
          datamover_plan_add_strided_section(plan, 0, lo, hi, NULL, 0, lo, half, step, NULL));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_plan_layout(plan, (datamover_side)2, &other));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_plan_layout(plan, DATAMOVER_SOURCE, NULL));
    SUCCEEDS(datamover_plan_free(&plan));
    SUCCEEDS(datamover_halo_of_color(whole, width, width, lo, hi, NULL, 0, 2, 1, &plan));
    CHECK(received(plan) == (rank == 0 ? 12 : 0));
    SUCCEEDS(datamover_plan_free(&plan));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_halo_of_color(whole, width, width, lo, hi, NULL, 0, 2, 2, &plan));
    datamover_layout_free(&whole);
}

static void test_phases(void) {
    const int64_t lo[2] = {0, 0}, hi[2] = {(int64_t)3 * size, 4}, grid[2] = {size, 2};
    const int64_t width[2] = {1, 1};
    datamover_layout* blocks = NULL;
    datamover_plan* plans[2] = {NULL, NULL};
    datamover_mover* mover = NULL;
    datamover_move phases[2];
    int64_t mine[2] = {0, 0}, count = 0, b = 0, i = 0, j = 0;
    int axis = 0, done = 0;
    SUCCEEDS(datamover_layout_create_uniform(2, lo, hi, grid, size, &blocks));
    datamover_array* u = with_ghosts(blocks, 1);
    const datamover_array* array = u;
    for (axis = 0; axis < 2; ++axis) {
        SUCCEEDS(datamover_axis_halo(blocks, width, width, axis, lo, hi, NULL, &plans[axis]));
        const datamover_move phase = {plans[axis], 1, &array, &array};
        phases[axis] = phase;
    }
    FAILS(DATAMOVER_OUT_OF_RANGE,
          datamover_axis_halo(blocks, width, width, 2, lo, hi, NULL, &plans[0]));
    SUCCEEDS(datamover_layout_blocks_of(blocks, rank, mine, 2, &count));
    CHECK(count == 2);
    for (b = 0; b < count; ++b)
        for (i = -1; i < 4; ++i)
            for (j = -1; j < 3; ++j) {
                const int inside = i >= 0 && i < 3 && j >= 0 && j < 2;
                *element(u, mine[b], i, j) =
                    inside ? 10 * (mine[b] / 2 * 3 + i) + mine[b] % 2 * 2 + j : -1;
            }
    SUCCEEDS(datamover_mover_create_set(MPI_COMM_WORLD, phases, 2, 0, NULL, &mover));
    SUCCEEDS(datamover_mover_start(mover));
    while (!done) SUCCEEDS(datamover_mover_test(mover, &done));
    for (b = 0; b < count; ++b)
        for (i = -1; i < 4; ++i)
            for (j = -1; j < 3; ++j)
                CHECK(*element(u, mine[b], i, j) ==
                      10 * ((mine[b] / 2 * 3 + i + hi[0]) % hi[0]) + (mine[b] % 2 * 2 + j + 4) % 4);
    SUCCEEDS(datamover_mover_free(&mover));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_mover_create_set(MPI_COMM_WORLD, phases, rank == 0 ? 0 : 2, 0, NULL, &mover));
    if (size > 1)
        FAILS(DATAMOVER_MISMATCH, datamover_mover_create_set(MPI_COMM_WORLD, phases,
                                                             rank == 0 ? 1 : 2, 0, NULL, &mover));
    for (axis = 0; axis < 2; ++axis) SUCCEEDS(datamover_plan_free(&plans[axis]));
    datamover_array_free(&u), datamover_layout_free(&blocks);
}

/* Each process owns two points of a ring and asks for the two behind them. */
static void test_own_lists(void) {
    const int64_t points = (int64_t)2 * size, shape[1] = {points}, counts[2] = {2, 2};
    const int64_t own[2] = {(int64_t)2 * rank + 1, (int64_t)2 * rank};
    const int64_t next[2] = {(own[0] + 1) % points, (own[0] + 2) % points}, far[1] = {points};
    const int64_t *lists[2] = {own, next}, *wrong[1] = {far}, one = 1;
    datamover_layout* layouts[2] = {NULL, NULL};
    datamover_plan* plan = NULL;
    datamover_block here = {0}, there = {0};
    datamover_array *a = NULL, *b = NULL;
    int64_t mine[2] = {10 * own[0], 10 * own[1]}, seen[2] = {-1, -1}, stride[1] = {8}, bytes = 0;
    SUCCEEDS(datamover_layout_create_index_lists(MPI_COMM_WORLD, 1, shape, 2, counts, lists, NULL,
                                                 0, layouts));
    SUCCEEDS(datamover_redistribute(layouts[0], layouts[1], NULL, &plan));
    here.block = there.block = rank;
    here.strides_bytes = there.strides_bytes = stride;
    here.origin = mine, there.origin = seen;
    SUCCEEDS(datamover_array_of_blocks(layouts[0], DATAMOVER_INT64, 8, &here, 1, &a));
    SUCCEEDS(datamover_array_of_blocks(layouts[1], DATAMOVER_INT64, 8, &there, 1, &b));
    move(plan, a, b);
    CHECK(seen[0] == 10 * next[0] && seen[1] == 10 * next[1]);
    FAILS(size > 1 ? DATAMOVER_UNSUPPORTED : DATAMOVER_SUCCESS,
          datamover_plan_to_bytes(plan, NULL, 0, &bytes));
    if (size > 1) {
        CHECK(strstr(datamover_error_message(), "only its own cannot be saved") != NULL);
        FAILS(DATAMOVER_UNSUPPORTED, datamover_plan_save(plan, "/nowhere/at/all"));
    }
    FAILS(DATAMOVER_OUT_OF_RANGE,
          datamover_layout_create_index_lists(MPI_COMM_WORLD, 1, shape, 1, &one,
                                              rank == 0 ? wrong : lists, NULL, 0, layouts));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_layout_create_index_lists(MPI_COMM_WORLD, 1, shape, 1, counts, lists, NULL, 0,
                                              rank == 0 ? NULL : layouts));
    SUCCEEDS(datamover_plan_free(&plan));
    datamover_array_free(&a), datamover_array_free(&b);
    datamover_layout_free(&layouts[0]), datamover_layout_free(&layouts[1]);
}

int main(int argc, char** argv) {
    begin(&argc, &argv);
    test_panels();
    test_levels();
    test_steps_and_colors();
    test_phases();
    test_own_lists();
    return finish();
}

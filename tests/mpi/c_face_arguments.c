/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of the C interface: NULL and invalid values are rejected with a code and a message. */
#include <limits.h>
#include <math.h>

#include "c_test.h"

/* Refused, with a message that was not there before. */
static void refused(int code, int expected, const char* what, int line) {
    check(code == expected, what, line);
    check(strlen(datamover_error_message()) > 5, "a message", line);
}
#define REFUSES(code, call)                                    \
    do {                                                       \
        (void)datamover_layout_dims(NULL, NULL);               \
        refused((call), (code), #call " is " #code, __LINE__); \
    } while (0)
#define REFUSES_NULL(call) REFUSES(DATAMOVER_INVALID_ARGUMENT, call)

static const int64_t shape[2] = {6, 4}, zero[2] = {0, 0}, one[2] = {1, 1};
static const int64_t far_away[2] = {INT64_MAX, INT64_MAX}, negative[2] = {-1, -1};

static void test_making_layouts(void) {
    const int64_t offsets[2] = {0, 2}, indices[2] = {1, 0}, owner = 0;
    const int64_t falling[2] = {2, 0}, too_many[2] = {0, -1};
    datamover_block_cyclic_options options = {0};
    datamover_layout* layout = NULL;

    REFUSES_NULL(datamover_layout_create_block_cyclic(2, shape, "(*, *)", size, NULL, NULL));
    REFUSES_NULL(datamover_layout_create_block_cyclic(2, NULL, "(*, *)", size, NULL, &layout));
    REFUSES_NULL(datamover_layout_create_block_cyclic(2, shape, NULL, size, NULL, &layout));
    REFUSES_NULL(datamover_layout_create_block_cyclic(2, shape, "", size, NULL, &layout));
    REFUSES_NULL(datamover_layout_create_block_cyclic(2, shape, "(*, *)", 0, NULL, &layout));
    REFUSES_NULL(datamover_layout_create_block_cyclic(0, shape, "()", size, NULL, &layout));
    REFUSES_NULL(datamover_layout_create_block_cyclic(-1, shape, "(*)", size, NULL, &layout));
    REFUSES_NULL(datamover_layout_create_block_cyclic(INT_MAX, shape, "(*)", size, NULL, &layout));
    options.ranks = zero, options.num_ranks = -1;
    REFUSES_NULL(datamover_layout_create_block_cyclic(2, shape, "(*, *)", size, &options, &layout));
    options.ranks = NULL, options.grid = negative;
    REFUSES_NULL(datamover_layout_create_block_cyclic(2, shape, "(*, *)", size, &options, &layout));
    options.grid = NULL, options.first_process = negative;
    check(datamover_layout_create_block_cyclic(2, shape, "(*, *)", size, &options, &layout) != 0,
          "a first process below 0", __LINE__);
    options.first_process = NULL, options.replicas = -1;
    REFUSES_NULL(datamover_layout_create_block_cyclic(2, shape, "(*, *)", size, &options, &layout));

    REFUSES_NULL(datamover_layout_create_floor_plan(2, 1, zero, one, &owner, size, NULL));
    REFUSES_NULL(datamover_layout_create_floor_plan(2, 1, NULL, one, &owner, size, &layout));
    REFUSES_NULL(datamover_layout_create_floor_plan(2, 1, zero, NULL, &owner, size, &layout));
    REFUSES_NULL(datamover_layout_create_floor_plan(2, 1, zero, one, NULL, size, &layout));
    REFUSES_NULL(datamover_layout_create_floor_plan(2, -1, zero, one, &owner, size, &layout));
    REFUSES_NULL(datamover_layout_create_floor_plan(0, 1, zero, one, &owner, size, &layout));
    REFUSES_NULL(datamover_layout_create_floor_plan(9, 1, zero, one, &owner, size, &layout));
    REFUSES_NULL(datamover_layout_create_floor_plan(2, 1, zero, one, &owner, 0, &layout));
    check(datamover_layout_create_floor_plan(8, INT64_MAX, zero, one, &owner, size, &layout) != 0,
          "more coordinates than numbers", __LINE__);
    check(datamover_layout_create_floor_plan(1, INT64_MAX, zero, one, &owner, size, &layout) != 0,
          "more blocks than memory", __LINE__);
    REFUSES_NULL(datamover_layout_create_uniform(2, zero, shape, one, size, NULL));
    REFUSES_NULL(datamover_layout_create_uniform(2, NULL, shape, one, size, &layout));
    REFUSES_NULL(datamover_layout_create_uniform(2, zero, NULL, one, size, &layout));
    REFUSES_NULL(datamover_layout_create_uniform(2, zero, shape, NULL, size, &layout));
    REFUSES_NULL(datamover_layout_create_uniform(9, zero, shape, one, size, &layout));
    REFUSES_NULL(datamover_layout_create_uniform(2, zero, shape, zero, size, &layout));
    check(datamover_layout_create_uniform(2, zero, shape, far_away, size, &layout) != 0,
          "more blocks than numbers", __LINE__);
    REFUSES_NULL(datamover_layout_create_tiles(2, zero, shape, one, size, "block", NULL));
    REFUSES_NULL(datamover_layout_create_tiles(2, NULL, shape, one, size, "block", &layout));
    REFUSES_NULL(datamover_layout_create_tiles(2, zero, NULL, one, size, "block", &layout));
    REFUSES_NULL(datamover_layout_create_tiles(2, zero, shape, NULL, size, "block", &layout));
    REFUSES_NULL(datamover_layout_create_tiles(2, zero, shape, one, size, NULL, &layout));
    REFUSES_NULL(datamover_layout_create_tiles(2, zero, shape, one, size, "blok", &layout));
    REFUSES_NULL(datamover_layout_create_tiles(2, zero, shape, zero, size, "block", &layout));
    REFUSES_NULL(datamover_layout_create_tiles(-3, zero, shape, one, size, "block", &layout));
    REFUSES_NULL(datamover_layout_create_index_list(2, shape, 1, offsets, indices, NULL));
    REFUSES_NULL(datamover_layout_create_index_list(2, NULL, 1, offsets, indices, &layout));
    REFUSES_NULL(datamover_layout_create_index_list(2, shape, 1, NULL, indices, &layout));
    REFUSES_NULL(datamover_layout_create_index_list(2, shape, 1, offsets, NULL, &layout));
    REFUSES_NULL(datamover_layout_create_index_list(9, shape, 1, offsets, indices, &layout));
    REFUSES_NULL(datamover_layout_create_index_list(2, shape, 0, offsets, indices, &layout));
    REFUSES_NULL(
        datamover_layout_create_index_list(2, shape, INT64_MAX, offsets, indices, &layout));
    REFUSES_NULL(datamover_layout_create_index_list(2, shape, 1, too_many, indices, &layout));
    check(datamover_layout_create_index_list(2, shape, 1, falling, indices, &layout) != 0,
          "offsets that fall", __LINE__);
    REFUSES_NULL(datamover_layout_create_flat_cyclic(2, shape, 1, 1, zero, 1, NULL));
    REFUSES_NULL(datamover_layout_create_flat_cyclic(2, NULL, 1, 1, zero, 1, &layout));
    REFUSES_NULL(datamover_layout_create_flat_cyclic(9, shape, 1, 1, zero, 1, &layout));
    REFUSES_NULL(datamover_layout_create_flat_cyclic(2, shape, 1, 1, zero, -1, &layout));
    REFUSES_NULL(datamover_layout_create_flat_cyclic(2, shape, 1, 1, zero, 2, &layout));
    REFUSES_NULL(datamover_layout_free(NULL));
    CHECK(layout == NULL);
    SUCCEEDS(datamover_layout_free(&layout));
}

static void test_asking_layouts(void) {
    datamover_layout *rows = block_cyclic(6, 4, "(block, *)"), *copy = NULL;
    int64_t number = 7, two[2] = {7, 7};
    int small = 7;
    REFUSES_NULL(datamover_layout_dims(NULL, &small));
    REFUSES_NULL(datamover_layout_dims(rows, NULL));
    REFUSES_NULL(datamover_layout_nprocs(NULL, &number));
    REFUSES_NULL(datamover_layout_nprocs(rows, NULL));
    REFUSES_NULL(datamover_layout_num_blocks(NULL, &number));
    REFUSES_NULL(datamover_layout_num_blocks(rows, NULL));
    REFUSES_NULL(datamover_layout_domain(NULL, two, two));
    REFUSES_NULL(datamover_layout_domain(rows, NULL, two));
    REFUSES_NULL(datamover_layout_domain(rows, two, NULL));
    REFUSES_NULL(datamover_layout_owner(NULL, 0, &number));
    REFUSES_NULL(datamover_layout_owner(rows, 0, NULL));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_layout_owner(rows, -1, &number));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_layout_owner(rows, INT64_MAX, &number));
    REFUSES_NULL(datamover_layout_blocks_of(NULL, 0, two, 2, &number));
    REFUSES_NULL(datamover_layout_blocks_of(rows, 0, two, 2, NULL));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_layout_blocks_of(rows, 0, two, -1, &number));
    REFUSES_NULL(datamover_layout_block_extents(NULL, 0, two));
    REFUSES_NULL(datamover_layout_block_extents(rows, 0, NULL));
    REFUSES_NULL(datamover_layout_block_region(NULL, 0, two, two));
    REFUSES_NULL(datamover_layout_block_region(rows, 0, NULL, two));
    REFUSES_NULL(datamover_layout_block_region(rows, 0, two, NULL));
    REFUSES_NULL(datamover_layout_local_elems(NULL, 0, &number));
    REFUSES_NULL(datamover_layout_local_elems(rows, 0, NULL));
    REFUSES_NULL(datamover_layout_duplicate(rows, NULL));
    REFUSES_NULL(datamover_layout_duplicate(NULL, &copy));
    CHECK(copy == NULL);
    REFUSES_NULL(datamover_layout_equal(NULL, rows, &small));
    REFUSES_NULL(datamover_layout_equal(rows, NULL, &small));
    REFUSES_NULL(datamover_layout_equal(rows, rows, NULL));
    REFUSES_NULL(datamover_layout_owner_of(NULL, zero, &number));
    REFUSES_NULL(datamover_layout_owner_of(rows, NULL, &number));
    REFUSES_NULL(datamover_layout_owner_of(rows, zero, NULL));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_layout_owner_of(rows, negative, &number));
    REFUSES_NULL(datamover_layout_local_shape(NULL, 0, two));
    REFUSES_NULL(datamover_layout_local_shape(rows, 0, NULL));
    REFUSES_NULL(datamover_layout_local_index(NULL, zero, two));
    REFUSES_NULL(datamover_layout_local_index(rows, NULL, two));
    REFUSES_NULL(datamover_layout_local_index(rows, zero, NULL));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_layout_local_index(rows, far_away, two));
    REFUSES_NULL(datamover_layout_global_index(NULL, 0, zero, two));
    REFUSES_NULL(datamover_layout_global_index(rows, 0, NULL, two));
    REFUSES_NULL(datamover_layout_global_index(rows, 0, zero, NULL));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_layout_global_index(rows, 0, far_away, two));
    CHECK(number == 7 && two[0] == 7 && two[1] == 7 && small == 7);
    datamover_layout_free(&rows);
}

static void test_plans(void) {
    const int axes[2] = {1, 0}, no_axes[2] = {0, 7};
    datamover_layout* rows = block_cyclic(6, 4, "(block, *)");
    datamover_layout *columns = block_cyclic(6, 4, "(*, block)"), *boxes = NULL;
    datamover_plan *plan = NULL, *good = NULL;
    int64_t number = 7, peers[8];
    char bytes[8];
    SUCCEEDS(datamover_layout_create_uniform(2, zero, shape, one, size, &boxes));
    SUCCEEDS(datamover_redistribute(rows, columns, NULL, &good));

    REFUSES_NULL(datamover_redistribute(rows, columns, NULL, NULL));
    REFUSES_NULL(datamover_redistribute(NULL, columns, NULL, &plan));
    REFUSES_NULL(datamover_redistribute(rows, NULL, NULL, &plan));
    REFUSES_NULL(datamover_redistribute(rows, columns, no_axes, &plan));
    REFUSES(DATAMOVER_MISMATCH, datamover_redistribute(rows, columns, axes, &plan));
    REFUSES_NULL(datamover_redistribute_section(rows, zero, one, columns, zero, one, NULL, NULL));
    REFUSES_NULL(datamover_redistribute_section(NULL, zero, one, columns, zero, one, NULL, &plan));
    REFUSES_NULL(datamover_redistribute_section(rows, NULL, one, columns, zero, one, NULL, &plan));
    REFUSES_NULL(datamover_redistribute_section(rows, zero, NULL, columns, zero, one, NULL, &plan));
    REFUSES_NULL(datamover_redistribute_section(rows, zero, one, NULL, zero, one, NULL, &plan));
    REFUSES_NULL(datamover_redistribute_section(rows, zero, one, columns, NULL, one, NULL, &plan));
    REFUSES_NULL(datamover_redistribute_section(rows, zero, one, columns, zero, NULL, NULL, &plan));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_redistribute_section(rows, negative, one, columns,
                                                                   negative, one, NULL, &plan));
    REFUSES_NULL(
        datamover_redistribute_partial(rows, NULL, NULL, columns, NULL, NULL, NULL, 1, NULL));
    REFUSES_NULL(
        datamover_redistribute_partial(NULL, NULL, NULL, columns, NULL, NULL, NULL, 1, &plan));
    REFUSES_NULL(
        datamover_redistribute_partial(rows, NULL, NULL, NULL, NULL, NULL, NULL, 1, &plan));
    REFUSES_NULL(
        datamover_redistribute_partial(rows, NULL, NULL, columns, NULL, one, NULL, 1, &plan));
    REFUSES_NULL(datamover_halo(boxes, one, one, NULL, NULL, NULL, 1, NULL));
    REFUSES_NULL(datamover_halo(NULL, one, one, NULL, NULL, NULL, 1, &plan));
    REFUSES_NULL(datamover_halo(boxes, NULL, one, NULL, NULL, NULL, 1, &plan));
    REFUSES_NULL(datamover_halo(boxes, one, NULL, NULL, NULL, NULL, 1, &plan));
    REFUSES_NULL(datamover_halo(boxes, one, one, zero, NULL, NULL, 1, &plan));
    REFUSES_NULL(datamover_halo(boxes, one, one, NULL, shape, NULL, 1, &plan));
    REFUSES_NULL(datamover_halo(boxes, negative, one, NULL, NULL, NULL, 1, &plan));
    REFUSES_NULL(datamover_halo(boxes, one, one, zero, zero, NULL, 1, &plan));
    REFUSES_NULL(datamover_plan_create(rows, columns, NULL));
    REFUSES_NULL(datamover_plan_create(NULL, columns, &plan));
    REFUSES_NULL(datamover_plan_create(rows, NULL, &plan));
    REFUSES_NULL(datamover_plan_add_section(NULL, 0, zero, one, 0, zero, one, NULL));
    REFUSES_NULL(datamover_plan_add_section(good, 0, NULL, one, 0, zero, one, NULL));
    REFUSES_NULL(datamover_plan_add_section(good, 0, zero, NULL, 0, zero, one, NULL));
    REFUSES_NULL(datamover_plan_add_section(good, 0, zero, one, 0, NULL, one, NULL));
    REFUSES_NULL(datamover_plan_add_section(good, 0, zero, one, 0, zero, NULL, NULL));
    REFUSES(DATAMOVER_OUT_OF_RANGE,
            datamover_plan_add_section(good, 99, zero, one, 0, zero, one, NULL));
    REFUSES_NULL(datamover_plan_add_section(good, 0, zero, one, 0, zero, one, no_axes));
    REFUSES_NULL(datamover_plan_merge(good, good, NULL));
    REFUSES_NULL(datamover_plan_merge(NULL, good, &plan));
    REFUSES_NULL(datamover_plan_merge(good, NULL, &plan));
    REFUSES_NULL(datamover_plan_reverse(good, NULL));
    REFUSES_NULL(datamover_plan_reverse(NULL, &plan));
    REFUSES_NULL(datamover_plan_adjoint(good, NULL));
    REFUSES_NULL(datamover_plan_adjoint(NULL, &plan));
    REFUSES_NULL(datamover_plan_compose(good, good, NULL));
    REFUSES_NULL(datamover_plan_compose(NULL, good, &plan));
    REFUSES_NULL(datamover_plan_compose(good, NULL, &plan));
    REFUSES_NULL(datamover_plan_num_terms(NULL, &number));
    REFUSES_NULL(datamover_plan_num_terms(good, NULL));
    REFUSES_NULL(datamover_plan_outgoing(NULL, 0, peers, peers, 8, &number));
    REFUSES_NULL(datamover_plan_outgoing(good, 0, peers, peers, 8, NULL));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_plan_outgoing(good, -1, peers, peers, 8, &number));
    REFUSES_NULL(datamover_plan_incoming(NULL, 0, peers, peers, 8, &number));
    REFUSES_NULL(datamover_plan_incoming(good, 0, peers, peers, 8, NULL));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_plan_incoming(good, 0, peers, NULL, -1, &number));
    REFUSES_NULL(datamover_plan_to_bytes(NULL, bytes, 8, &number));
    REFUSES_NULL(datamover_plan_to_bytes(good, NULL, 0, NULL));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_plan_to_bytes(good, bytes, 8, &number));
    REFUSES_NULL(datamover_plan_from_bytes(bytes, 8, NULL));
    REFUSES_NULL(datamover_plan_from_bytes(NULL, 8, &plan));
    REFUSES_NULL(datamover_plan_from_bytes(bytes, -8, &plan));
    REFUSES_NULL(datamover_plan_from_bytes(bytes, 0, &plan));
    REFUSES_NULL(datamover_plan_save(NULL, "nowhere"));
    REFUSES_NULL(datamover_plan_save(good, NULL));
    REFUSES(DATAMOVER_IO, datamover_plan_save(good, "no/such/directory"));
    REFUSES_NULL(datamover_plan_load("nowhere", NULL));
    REFUSES_NULL(datamover_plan_load(NULL, &plan));
    REFUSES_NULL(datamover_plan_free(NULL));
    CHECK(plan == NULL && number == 7);
    datamover_plan_free(&good), datamover_layout_free(&rows);
    datamover_layout_free(&columns), datamover_layout_free(&boxes);
}

static void test_arrays(void) {
    const int descriptor[9] = {1, 0, 6, 4, 6, 4, 0, 0, 6};
    const int64_t strides[2] = {32, 8};
    const datamover_process_grid single = {1, 1, 0, NULL}, none = {0, 1, 0, NULL};
    datamover_layout *all = block_cyclic(6, 4, "(*, *)"), *layout = NULL, *rows;
    datamover_layout* boxes = NULL;
    datamover_array *array = NULL, *made = NULL;
    double data[24];
    datamover_block block = {0};
    int64_t number[2];
    int described[9];
    void* origin = NULL;
    block.origin = data, block.strides_bytes = strides;
    rows = block_cyclic(6 * size, 4, "(block, *)");

    REFUSES_NULL(datamover_array_of_blocks(all, DATAMOVER_FLOAT64, 8, &block, 1, NULL));
    REFUSES_NULL(datamover_array_of_blocks(NULL, DATAMOVER_FLOAT64, 8, &block, 1, &array));
    REFUSES_NULL(datamover_array_of_blocks(all, DATAMOVER_FLOAT64, 8, NULL, 1, &array));
    REFUSES_NULL(datamover_array_of_blocks(all, DATAMOVER_FLOAT64, 8, &block, -1, &array));
    REFUSES_NULL(datamover_array_of_blocks(all, (datamover_type)1000, 8, &block, 1, &array));
    REFUSES(DATAMOVER_WRONG_TYPE,
            datamover_array_of_blocks(all, DATAMOVER_FLOAT64, 4, &block, 1, &array));
    REFUSES(DATAMOVER_WRONG_TYPE,
            datamover_array_of_blocks(all, DATAMOVER_OPAQUE, 0, &block, 1, &array));
    REFUSES(DATAMOVER_WRONG_TYPE,
            datamover_array_of_blocks(all, DATAMOVER_OPAQUE, -8, &block, 1, &array));
    REFUSES_NULL(datamover_array_of_const_blocks(all, DATAMOVER_FLOAT64, 8, &block, 1, NULL));
    REFUSES_NULL(datamover_array_of_const_blocks(NULL, DATAMOVER_FLOAT64, 8, &block, 1, &array));
    REFUSES_NULL(datamover_array_of_const_blocks(all, DATAMOVER_FLOAT64, 8, NULL, 1, &array));
    block.origin = NULL;
    REFUSES_NULL(datamover_array_of_blocks(all, DATAMOVER_FLOAT64, 8, &block, 1, &array));
    block.origin = data, block.strides_bytes = NULL;
    REFUSES_NULL(datamover_array_of_blocks(all, DATAMOVER_FLOAT64, 8, &block, 1, &array));
    block.strides_bytes = strides, block.ghost_lower = negative;
    REFUSES_NULL(datamover_array_of_blocks(all, DATAMOVER_FLOAT64, 8, &block, 1, &array));
    block.ghost_lower = NULL, block.block = 99;
    SUCCEEDS(datamover_layout_create_uniform(2, zero, shape, one, size, &boxes));
    REFUSES(DATAMOVER_OUT_OF_RANGE,
            datamover_array_of_blocks(boxes, DATAMOVER_FLOAT64, 8, &block, 1, &array));

    SUCCEEDS(datamover_layout_from_descriptor(descriptor, &single, size, &layout));
    REFUSES_NULL(
        datamover_array_of_matrix(layout, 0, descriptor, DATAMOVER_FLOAT64, 8, data, NULL));
    REFUSES_NULL(
        datamover_array_of_matrix(NULL, 0, descriptor, DATAMOVER_FLOAT64, 8, data, &array));
    REFUSES_NULL(datamover_array_of_matrix(layout, 0, NULL, DATAMOVER_FLOAT64, 8, data, &array));
    REFUSES_NULL(
        datamover_array_of_matrix(layout, 0, descriptor, DATAMOVER_FLOAT64, 8, NULL, &array));
    REFUSES_NULL(
        datamover_array_of_const_matrix(layout, 0, descriptor, DATAMOVER_FLOAT64, 8, NULL, &array));
    REFUSES_NULL(
        datamover_array_of_const_matrix(layout, 0, descriptor, DATAMOVER_FLOAT64, 8, data, NULL));
    REFUSES_NULL(
        datamover_array_of_const_matrix(NULL, 0, descriptor, DATAMOVER_FLOAT64, 8, data, &array));
    REFUSES_NULL(
        datamover_array_of_const_matrix(layout, 0, NULL, DATAMOVER_FLOAT64, 8, data, &array));
    REFUSES(DATAMOVER_OUT_OF_RANGE,
            datamover_array_of_matrix(layout, -1, descriptor, DATAMOVER_FLOAT64, 8, data, &array));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_array_of_matrix(layout, size, descriptor,
                                                              DATAMOVER_FLOAT64, 8, data, &array));
    REFUSES(DATAMOVER_WRONG_TYPE,
            datamover_array_of_matrix(layout, 0, descriptor, DATAMOVER_FLOAT64, 16, data, &array));
    REFUSES(DATAMOVER_UNSUPPORTED,
            datamover_array_of_matrix(boxes, 0, descriptor, DATAMOVER_FLOAT64, 8, data, &array));
    datamover_layout_free(&layout);
    REFUSES_NULL(datamover_layout_from_descriptor(descriptor, &single, size, NULL));
    REFUSES_NULL(datamover_layout_from_descriptor(NULL, &single, size, &layout));
    REFUSES_NULL(datamover_layout_from_descriptor(descriptor, NULL, size, &layout));
    REFUSES_NULL(datamover_layout_from_descriptor(descriptor, &none, size, &layout));
    REFUSES_NULL(datamover_layout_from_descriptor(descriptor, &single, 0, &layout));
    REFUSES_NULL(datamover_layout_to_descriptor(NULL, 0, 0, 0, described));
    REFUSES_NULL(datamover_layout_to_descriptor(rows, 0, 0, 0, NULL));
    REFUSES(DATAMOVER_UNSUPPORTED, datamover_layout_to_descriptor(boxes, 0, 0, 0, described));

    made = array_of(rows, 0);
    REFUSES_NULL(datamover_array_block(NULL, rank, &origin, number));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_array_block(made, -1, &origin, number));
    SUCCEEDS(datamover_array_block(made, rank, NULL, NULL));
    REFUSES_NULL(datamover_array_free(NULL));
    CHECK(array == NULL && layout == NULL && origin == NULL);
    datamover_array_free(&made), datamover_layout_free(&rows);
    datamover_layout_free(&all), datamover_layout_free(&boxes);
}

/* In collective calls only the last process is wrong, and all are told. */
static void test_collective_calls(void) {
    const int last = rank == size - 1;
    const int descriptor[9] = {1, 0, 6, 4, 6, 4, 0, 0, 6};
    const datamover_process_grid single = {1, 1, 0, NULL};
    datamover_layout *rows = block_cyclic(6 * size, 4, "(block, *)"), *list = NULL;
    datamover_array *array = NULL, *a = array_of(rows, 0), *b = array_of(rows, 1);
    datamover_plan* plan = NULL;
    datamover_mover *mover = NULL, *good = NULL;
    datamover_mover_options options = {0};
    double from[24] = {0}, to[24] = {0};
    SUCCEEDS(datamover_redistribute(rows, rows, NULL, &plan));

#define NEW_ARRAY(handle, layout, type, bytes, ghosts) \
    datamover_array_create(MPI_COMM_WORLD, layout, type, bytes, 0, ghosts, NULL, handle)
    REFUSES_NULL(NEW_ARRAY(last ? NULL : &array, rows, DATAMOVER_INT64, 8, NULL));
    REFUSES_NULL(NEW_ARRAY(&array, last ? NULL : rows, DATAMOVER_INT64, 8, NULL));
    REFUSES_NULL(NEW_ARRAY(&array, rows, last ? (datamover_type)1000 : DATAMOVER_INT64, 8, NULL));
    REFUSES(DATAMOVER_WRONG_TYPE, NEW_ARRAY(&array, rows, DATAMOVER_INT64, last ? 4 : 8, NULL));
    REFUSES(DATAMOVER_WRONG_TYPE, NEW_ARRAY(&array, rows, DATAMOVER_OPAQUE, last ? -4 : 4, NULL));
    REFUSES_NULL(NEW_ARRAY(&array, rows, DATAMOVER_INT64, 8, last ? negative : NULL));
    check(NEW_ARRAY(&array, rows, DATAMOVER_INT64, 8, last ? far_away : NULL) != 0,
          "ghosts without end", __LINE__);
    REFUSES_NULL(
        datamover_array_create(MPI_COMM_NULL, rows, DATAMOVER_INT64, 8, 0, NULL, NULL, &array));

#define NEW_MOVER(handle, plan, from, to) \
    datamover_mover_create(MPI_COMM_WORLD, plan, from, to, &options, handle)
    REFUSES_NULL(NEW_MOVER(last ? NULL : &mover, plan, a, b));
    REFUSES_NULL(NEW_MOVER(&mover, last ? NULL : plan, a, b));
    REFUSES_NULL(NEW_MOVER(&mover, plan, last ? NULL : a, b));
    REFUSES_NULL(NEW_MOVER(&mover, plan, a, last ? NULL : b));
    REFUSES_NULL(datamover_mover_create(MPI_COMM_NULL, plan, a, b, NULL, &mover));
    options.op = last ? "" : NULL;
    REFUSES_NULL(NEW_MOVER(&mover, plan, a, b));
    options.op = NULL, options.transport = last ? "" : NULL;
    REFUSES_NULL(NEW_MOVER(&mover, plan, a, b));
    options.transport = NULL, options.max_bytes = last ? -1 : 0;
    REFUSES_NULL(NEW_MOVER(&mover, plan, a, b));
    options.max_bytes = 0;
    if (size > 1) { /* Options that differ: both values are named, the same on all. */
        char words[256];
        options.op = last ? "add" : NULL;
        REFUSES(DATAMOVER_MISMATCH, NEW_MOVER(&mover, plan, a, b));
        snprintf(words, sizeof words,
                 "processes 0 and %d passed different options: op=\"replace\" on process 0, "
                 "op=\"add\" on process %d",
                 size - 1, size - 1);
        check(strcmp(datamover_error_message(), words) == 0, "both values are named", __LINE__);
        options.op = NULL;
    }
    SUCCEEDS(NEW_MOVER(&good, plan, a, b));
    REFUSES_NULL(datamover_mover_rebind(MPI_COMM_WORLD, last ? NULL : good, a, b));
    REFUSES_NULL(datamover_mover_rebind(MPI_COMM_WORLD, good, last ? NULL : a, b));
    REFUSES_NULL(datamover_mover_rebind(MPI_COMM_WORLD, good, a, last ? NULL : b));

#define GEMR2D(bytes, a, desca, grid_a, b, descb, grid_b) \
    datamover_gemr2d(MPI_COMM_WORLD, bytes, 6, 4, a, 1, 1, desca, grid_a, b, 1, 1, descb, grid_b)
    SUCCEEDS(GEMR2D(8, from, descriptor, &single, to, descriptor, &single));
    REFUSES_NULL(GEMR2D(8, rank ? from : NULL, descriptor, &single, to, descriptor, &single));
    REFUSES_NULL(GEMR2D(8, from, last ? NULL : descriptor, &single, to, descriptor, &single));
    REFUSES_NULL(GEMR2D(8, from, descriptor, last ? NULL : &single, to, descriptor, &single));
    REFUSES_NULL(GEMR2D(8, from, descriptor, &single, rank ? to : NULL, descriptor, &single));
    REFUSES_NULL(GEMR2D(8, from, descriptor, &single, to, last ? NULL : descriptor, &single));
    REFUSES_NULL(GEMR2D(8, from, descriptor, &single, to, descriptor, last ? NULL : &single));
    REFUSES(DATAMOVER_WRONG_TYPE, GEMR2D(0, from, descriptor, &single, to, descriptor, &single));
    REFUSES_NULL(datamover_gemr2d(MPI_COMM_NULL, 8, 6, 4, from, 1, 1, descriptor, &single, to, 1, 1,
                                  descriptor, &single));
    REFUSES_NULL(datamover_matrix_cache_drop(MPI_COMM_NULL));
    REFUSES_NULL(datamover_layout_create_index_lists(MPI_COMM_WORLD, 2, shape, 0, NULL, NULL, NULL,
                                                     last ? -1 : 0, &list));
    /* Nothing is left behind that disturbs what comes. */
    SUCCEEDS(datamover_mover_run(good));
    CHECK(array == NULL && mover == NULL);
    datamover_mover_free(&good), datamover_plan_free(&plan);
    datamover_array_free(&a), datamover_array_free(&b), datamover_layout_free(&rows);
}

static void test_movers(void) {
    datamover_layout* rows = block_cyclic(6 * size, 4, "(block, *)");
    datamover_array *a = array_of(rows, 0), *b = array_of(rows, 1);
    datamover_plan* plan = NULL;
    datamover_mover* mover = NULL;
    datamover_mover_counters counters;
    datamover_mover_pair pair;
    int64_t number = 7;
    int done;
    SUCCEEDS(datamover_redistribute(rows, rows, NULL, &plan));
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, plan, a, b, NULL, &mover));
    REFUSES_NULL(datamover_mover_start(NULL));
    REFUSES_NULL(datamover_mover_test(NULL, &done));
    REFUSES_NULL(datamover_mover_test(mover, NULL));
    REFUSES_NULL(datamover_mover_wait(NULL, 1));
    REFUSES_NULL(datamover_mover_wait(mover, (double)NAN));
    REFUSES_NULL(datamover_mover_run(NULL));
    REFUSES_NULL(datamover_mover_counters_get(NULL, &counters));
    REFUSES_NULL(datamover_mover_counters_get(mover, NULL));
    REFUSES_NULL(datamover_mover_pairs(NULL, &pair, 1, &number));
    REFUSES_NULL(datamover_mover_pairs(mover, &pair, 1, NULL));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_mover_pairs(mover, &pair, -1, &number));
    REFUSES_NULL(datamover_mover_free(NULL));
    CHECK(number == 7);
    SUCCEEDS(datamover_mover_run(mover));
    SUCCEEDS(datamover_mover_free(&mover));
    SUCCEEDS(datamover_mover_free(&mover));
    datamover_plan_free(&plan), datamover_array_free(&a), datamover_array_free(&b);
    datamover_layout_free(&rows);
}

static void test_relations(void) {
    const int64_t from[3] = {2, 0, 1}, to[3] = {0, 1, 2};
    const datamover_side neither = (datamover_side)2;
    datamover_relation *relation = NULL, *made = NULL, *other = NULL;
    int64_t number = 7, length = 0;
    int32_t here[3] = {1, 2, 3}, there[3];
    const char* text = NULL;
    char message[512], request[512];
    datamover_piece pieces[3];
    MPI_Datatype datatype = MPI_DATATYPE_NULL;

    REFUSES_NULL(datamover_relation_from_pairs(3, from, to, 4, 4, NULL));
    REFUSES_NULL(datamover_relation_from_pairs(3, NULL, to, 4, 4, &made));
    REFUSES_NULL(datamover_relation_from_pairs(3, from, NULL, 4, 4, &made));
    REFUSES_NULL(datamover_relation_from_pairs(-3, from, to, 4, 4, &made));
    check(datamover_relation_from_pairs(3, from, to, 0, 4, &made) != 0, "no bytes", __LINE__);
    check(datamover_relation_from_pairs(3, from, to, 4, -4, &made) != 0, "fewer bytes", __LINE__);
    SUCCEEDS(datamover_relation_from_pairs(3, from, to, 4, 4, &relation));
    REFUSES_NULL(datamover_relation_encode(relation, "pairs", NULL));
    REFUSES_NULL(datamover_relation_encode(NULL, "pairs", &made));
    REFUSES_NULL(datamover_relation_encode(relation, NULL, &made));
    REFUSES_NULL(datamover_relation_encode(relation, "peers", &made));
    REFUSES_NULL(datamover_relation_size(NULL, &number));
    REFUSES_NULL(datamover_relation_size(relation, NULL));
    REFUSES_NULL(datamover_relation_nbytes(NULL, &number));
    REFUSES_NULL(datamover_relation_nbytes(relation, NULL));
    REFUSES_NULL(datamover_relation_encoding(NULL, &text));
    REFUSES_NULL(datamover_relation_encoding(relation, NULL));
    REFUSES_NULL(datamover_relation_bounds(NULL, DATAMOVER_SOURCE, &number, &number));
    REFUSES_NULL(datamover_relation_bounds(relation, DATAMOVER_SOURCE, NULL, &number));
    REFUSES_NULL(datamover_relation_bounds(relation, DATAMOVER_SOURCE, &number, NULL));
    REFUSES_NULL(datamover_relation_bounds(relation, neither, &number, &number));
    REFUSES_NULL(datamover_relation_copy(NULL, here, there));
    REFUSES_NULL(datamover_relation_copy(relation, NULL, there));
    REFUSES_NULL(datamover_relation_copy(relation, here, NULL));
    REFUSES_NULL(datamover_relation_gather(NULL, here, there));
    REFUSES_NULL(datamover_relation_gather(relation, NULL, there));
    REFUSES_NULL(datamover_relation_gather(relation, here, NULL));
    REFUSES_NULL(datamover_relation_scatter(NULL, here, there));
    REFUSES_NULL(datamover_relation_scatter(relation, NULL, there));
    REFUSES_NULL(datamover_relation_scatter(relation, here, NULL));
#define UPDATE(relation, from, to, op) \
    datamover_relation_update(relation, from, DATAMOVER_INT32, to, DATAMOVER_INT32, op)
    REFUSES_NULL(UPDATE(NULL, here, there, "add"));
    REFUSES_NULL(UPDATE(relation, NULL, there, "add"));
    REFUSES_NULL(UPDATE(relation, here, NULL, "add"));
    REFUSES_NULL(UPDATE(relation, here, there, NULL));
    REFUSES_NULL(UPDATE(relation, here, there, "subtract"));
    REFUSES_NULL(datamover_relation_split(NULL, &made, &other));
    REFUSES_NULL(datamover_relation_split(relation, NULL, &other));
    REFUSES_NULL(datamover_relation_split(relation, &made, NULL));
    REFUSES_NULL(datamover_relation_join(relation, relation, NULL));
    REFUSES_NULL(datamover_relation_join(NULL, relation, &made));
    REFUSES_NULL(datamover_relation_join(relation, NULL, &made));
    REFUSES_NULL(datamover_relation_to_bytes(NULL, message, 512, &number));
    REFUSES_NULL(datamover_relation_to_bytes(relation, message, 512, NULL));
    REFUSES_NULL(datamover_relation_to_bytes(relation, NULL, 512, &length));
    REFUSES_NULL(datamover_relation_from_bytes(message, 8, NULL));
    REFUSES_NULL(datamover_relation_from_bytes(NULL, 8, &made));
    REFUSES_NULL(datamover_relation_from_bytes(message, -8, &made));
    REFUSES_NULL(datamover_relation_from_bytes(message, 0, &made));
    REFUSES_NULL(datamover_relation_iovec(NULL, DATAMOVER_SOURCE, here, pieces, 3, &number));
    REFUSES_NULL(datamover_relation_iovec(relation, DATAMOVER_SOURCE, here, pieces, 3, NULL));
    REFUSES_NULL(datamover_relation_iovec(relation, neither, here, pieces, 3, &number));
    REFUSES_NULL(datamover_relation_datatype(NULL, DATAMOVER_SOURCE, MPI_INT, &datatype));
    REFUSES_NULL(datamover_relation_datatype(relation, DATAMOVER_SOURCE, MPI_INT, NULL));
    REFUSES_NULL(datamover_relation_datatype(relation, neither, MPI_INT, &datatype));
    REFUSES_NULL(datamover_relation_put_message(NULL, here, message, 512, &number));
    REFUSES_NULL(datamover_relation_put_message(relation, NULL, message, 512, &number));
    REFUSES_NULL(datamover_relation_put_message(relation, here, message, 512, NULL));
    SUCCEEDS(datamover_relation_put_message(relation, here, message, 512, &length));
    REFUSES_NULL(datamover_accept_put(NULL, length, there, 0, 12));
    REFUSES_NULL(datamover_accept_put(message, -1, there, 0, 12));
    REFUSES_NULL(datamover_accept_put(message, length, NULL, 0, 12));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_accept_put(message, length, NULL, 0, 0));
    REFUSES(DATAMOVER_OUT_OF_RANGE, datamover_accept_put(message, length, there, 12, 0));
    REFUSES_NULL(datamover_relation_get_request(NULL, request, 512, &number));
    REFUSES_NULL(datamover_relation_get_request(relation, request, 512, NULL));
    SUCCEEDS(datamover_relation_get_request(relation, request, 512, &length));
    REFUSES_NULL(datamover_answer_get(NULL, length, here, 0, 12, there, 12, &number));
    REFUSES_NULL(datamover_answer_get(request, -1, here, 0, 12, there, 12, &number));
    REFUSES_NULL(datamover_answer_get(request, length, NULL, 0, 12, there, 12, &number));
    REFUSES_NULL(datamover_answer_get(request, length, here, 0, 12, there, 12, NULL));
    REFUSES(DATAMOVER_OUT_OF_RANGE,
            datamover_answer_get(request, length, NULL, 0, 0, there, 12, &number));
    REFUSES_NULL(datamover_relation_free(NULL));
    CHECK(made == NULL && other == NULL && text == NULL && number == 7);
    CHECK(datatype == MPI_DATATYPE_NULL);
    datamover_relation_free(&relation);
    /* Nothing to move needs no memory. */
    SUCCEEDS(datamover_relation_from_pairs(0, NULL, NULL, 4, 4, &relation));
    SUCCEEDS(datamover_relation_copy(relation, NULL, NULL));
    SUCCEEDS(datamover_relation_gather(relation, NULL, NULL));
    SUCCEEDS(datamover_relation_scatter(relation, NULL, NULL));
    datamover_relation_free(&relation);
}

static void test_names(void) {
    char numbers[64];
    snprintf(numbers, sizeof numbers, "%d.%d.%d", DATAMOVER_VERSION_MAJOR, DATAMOVER_VERSION_MINOR,
             DATAMOVER_VERSION_PATCH);
    CHECK(strcmp(datamover_version(), numbers) == 0);
    CHECK(strcmp(datamover_version(), DATAMOVER_VERSION_STRING) == 0);
    CHECK(strcmp(datamover_error_name(INT_MIN), "unknown") == 0);
    CHECK(strcmp(datamover_error_name(99), "unknown") == 0);
}

/* MPI itself would end the process. */
static void test_without_mpi(void) {
    const int64_t number = 0;
    datamover_relation* relation = NULL;
    datamover_window_memory* known = NULL;
    MPI_Datatype made = MPI_DATATYPE_NULL;
    SUCCEEDS(datamover_relation_from_pairs(1, &number, &number, 8, 8, &relation));
    REFUSES(DATAMOVER_MPI,
            datamover_relation_datatype(relation, DATAMOVER_SOURCE, MPI_DATATYPE_NULL, &made));
    REFUSES(DATAMOVER_MPI, datamover_in_window(MPI_WIN_NULL, &relation, 1, &known));
    REFUSES(DATAMOVER_MPI, datamover_matrix_cache_drop(MPI_COMM_WORLD));
    REFUSES(DATAMOVER_MPI, datamover_agree(MPI_COMM_WORLD, 0));
    SUCCEEDS(datamover_relation_free(&relation));
}

int main(int argc, char** argv) {
    test_without_mpi();
    begin(&argc, &argv);
    test_names();
    test_making_layouts();
    test_asking_layouts();
    test_plans();
    test_arrays();
    test_collective_calls();
    test_movers();
    test_relations();
    const int code = finish();
    test_without_mpi();
    return failures ? EXIT_FAILURE : code;
}

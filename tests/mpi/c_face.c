/* SPDX-License-Identifier: BSD-3-Clause */
/* C interface: layouts, arrays, plans and movers work from C as the header documents. */
#include <math.h>

#include "c_test.h"

/* The address of a local element of this process's block; its block number is its rank. */
static int64_t* element(const datamover_array* array, const int64_t local[2]) {
    void* origin = NULL;
    int64_t strides[2];
    SUCCEEDS(datamover_array_block(array, rank, &origin, strides));
    return (int64_t*)(void*)((char*)origin + local[0] * strides[0] + local[1] * strides[1]);
}

/* Calls visit(element, global row, global column) for every element of a block-cyclic array here.
 */
typedef void visitor(int64_t* element, int64_t row, int64_t column);

static void for_each(const datamover_layout* layout, const datamover_array* array, visitor* visit) {
    int64_t shape[2], local[2], global[2], owner, back[2];
    SUCCEEDS(datamover_layout_local_shape(layout, rank, shape));
    for (local[0] = 0; local[0] < shape[0]; ++local[0])
        for (local[1] = 0; local[1] < shape[1]; ++local[1]) {
            SUCCEEDS(datamover_layout_global_index(layout, rank, local, global));
            SUCCEEDS(datamover_layout_owner_of(layout, global, &owner));
            SUCCEEDS(datamover_layout_local_index(layout, global, back));
            CHECK(owner == rank && back[0] == local[0] && back[1] == local[1]);
            visit(element(array, local), global[0], global[1]);
        }
}

static void number(int64_t* e, int64_t row, int64_t column) {
    *e = 1000 * row + column;
}
static void number_negative(int64_t* e, int64_t row, int64_t column) {
    *e = -1000 * row - column;
}
static void expect_number(int64_t* e, int64_t row, int64_t column) {
    CHECK(*e == 1000 * row + column);
}
static void expect_transposed(int64_t* e, int64_t row, int64_t column) {
    CHECK(*e == 1000 * column + row);
}
static void expect_sum_zero(int64_t* e, int64_t row, int64_t column) {
    (void)row, (void)column;
    CHECK(*e == 0);
}
static void expect_section(int64_t* e, int64_t row, int64_t column) {
    const int inside = row >= 1 && row < 6 && column >= 2 && column < 5;
    CHECK(*e == (inside ? 1000 * (row + 2) + column + 4 : -1000 * row - column));
}

static datamover_mover* bound(const datamover_plan* plan, const datamover_array* a,
                              const datamover_array* b, const char* op) {
    datamover_mover_options options = {0};
    datamover_mover* mover = NULL;
    options.op = op;
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, plan, a, b, &options, &mover));
    return mover;
}

static void move_once(const datamover_plan* plan, const datamover_array* a,
                      const datamover_array* b, const char* op) {
    datamover_mover* mover = bound(plan, a, b, op);
    SUCCEEDS(datamover_mover_run(mover));
    SUCCEEDS(datamover_mover_free(&mover));
    CHECK(mover == NULL);
}

static void test_redistributions(void) {
    datamover_layout* rows = block_cyclic(23, 17, "(cyclic(3), *)");
    datamover_layout* columns = block_cyclic(23, 17, "(*, block)");
    datamover_layout* turned = block_cyclic(17, 23, "(cyclic, *)");
    datamover_array *a = array_of(rows, 0), *b = array_of(columns, 1), *c = array_of(turned, 0);
    datamover_plan *there, *back, *transpose, *section;
    const int64_t from_lo[2] = {3, 6}, from_hi[2] = {8, 9}, to_lo[2] = {1, 2}, to_hi[2] = {6, 5};
    const int axes[2] = {1, 0};
    int64_t terms = 0;

    SUCCEEDS(datamover_redistribute(rows, columns, NULL, &there));
    SUCCEEDS(datamover_plan_reverse(there, &back));
    SUCCEEDS(datamover_redistribute(rows, turned, axes, &transpose));
    SUCCEEDS(datamover_redistribute_section(rows, from_lo, from_hi, columns, to_lo, to_hi, NULL,
                                            &section));
    SUCCEEDS(datamover_plan_num_terms(there, &terms));
    CHECK(terms == 1);

    for_each(rows, a, number);
    move_once(there, a, b, NULL);
    for_each(columns, b, expect_number);
    move_once(transpose, a, c, "replace");
    for_each(turned, c, expect_transposed);
    for_each(rows, a, number_negative);
    move_once(there, a, b, "add");
    for_each(columns, b, expect_sum_zero);
    for_each(columns, b, number);
    move_once(back, b, a, NULL);
    for_each(rows, a, expect_number);
    for_each(columns, b, number_negative);
    move_once(section, a, b, NULL);
    for_each(columns, b, expect_section);

    datamover_plan_free(&there), datamover_plan_free(&back);
    datamover_plan_free(&transpose), datamover_plan_free(&section);
    datamover_array_free(&a), datamover_array_free(&b), datamover_array_free(&c);
    datamover_layout_free(&rows), datamover_layout_free(&columns), datamover_layout_free(&turned);
}

/* Twice the source minus what is there, which is the source again; then between other arrays. */
static void test_updates_and_rebinding(void) {
    datamover_layout *rows = block_cyclic(9, 8, "(block, *)"),
                     *columns = block_cyclic(9, 8, "(*, block)");
    datamover_array *a = array_of(rows, 0), *b = array_of(columns, 0);
    datamover_array *a2 = array_of(rows, 0), *b2 = array_of(columns, 0);
    datamover_plan* plan = NULL;
    datamover_mover* mover = NULL;
    datamover_mover_options options = {0};
    const double alpha[2] = {2, 0}, beta[2] = {-1, 0};
    SUCCEEDS(datamover_redistribute(rows, columns, NULL, &plan));
    options.beta = beta; /* of nothing in place */
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_mover_create(MPI_COMM_WORLD, plan, a, b, &options, &mover));
    options.op = "add", options.alpha = alpha;
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, plan, a, b, &options, &mover));
    for_each(rows, a, number);
    for_each(columns, b, number);
    SUCCEEDS(datamover_mover_run(mover));
    for_each(columns, b, expect_number);
    for_each(rows, a2, number);
    for_each(columns, b2, number);
    SUCCEEDS(datamover_mover_rebind(MPI_COMM_WORLD, mover, a2, b2));
    SUCCEEDS(datamover_mover_run(mover));
    for_each(columns, b2, expect_number);
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_mover_rebind(MPI_COMM_WORLD, mover, rank == 0 ? NULL : a, b));
    SUCCEEDS(datamover_mover_free(&mover));
    datamover_array_free(&a), datamover_array_free(&b), datamover_array_free(&a2),
        datamover_array_free(&b2);
    datamover_plan_free(&plan), datamover_layout_free(&rows), datamover_layout_free(&columns);
}

/* A ring of blocks of 4 elements with ghosts 2 deep, one block per process, in memory of our own.
 */
static void test_halo_of_user_memory(void) {
    const int64_t lo = 0, hi = 4 * (int64_t)size, grid = size, width = 2, stride = sizeof(double);
    double memory[8];
    datamover_layout* ring = NULL;
    datamover_plan* halo = NULL;
    datamover_array* array = NULL;
    datamover_block block = {0};
    int i, wraps = 1;

    SUCCEEDS(datamover_layout_create_uniform(1, &lo, &hi, &grid, size, &ring));
    SUCCEEDS(datamover_halo(ring, &width, &width, &lo, &hi, &wraps, 1, &halo));
    block.block = rank;
    block.origin = memory + 2;
    block.strides_bytes = &stride;
    block.ghost_lower = block.ghost_upper = &width;
    SUCCEEDS(datamover_array_of_blocks(ring, DATAMOVER_FLOAT64, 8, &block, 1, &array));
    for (i = 0; i < 8; ++i) memory[i] = i >= 2 && i < 6 ? 4.0 * rank + i - 2 : -1;
    move_once(halo, array, array, NULL);
    for (i = 0; i < 8; ++i) CHECK(memory[i] == (double)((4 * rank + i - 2 + hi) % hi));
    datamover_array_free(&array);
    datamover_plan_free(&halo);
    datamover_layout_free(&ring);
}

/* Every process sends element `rank` of its list to the next, said by hand; start, test, wait. */
static void test_plan_by_hand(void) {
    int64_t *lo = calloc((size_t)size, 8), *hi = calloc((size_t)size, 8),
            *owners = calloc((size_t)size, 8);
    int64_t source = 10 + rank, destination = -1, stride = 8, elems = 0;
    datamover_layout *cells = NULL, *same = NULL;
    datamover_plan *plan = NULL, *other = NULL, *all = NULL;
    datamover_array *a = NULL, *b = NULL;
    datamover_mover* mover = NULL;
    datamover_mover_counters counters;
    datamover_block from = {0}, to = {0};
    int i, done = 0, equal = 0;

    for (i = 0; i < size; ++i) lo[i] = i, hi[i] = i + 1, owners[i] = i;
    SUCCEEDS(datamover_layout_create_floor_plan(1, size, lo, hi, owners, size, &same));
    SUCCEEDS(datamover_layout_duplicate(same, &cells));
    SUCCEEDS(datamover_layout_free(&same));
    SUCCEEDS(datamover_layout_create_tiles(1, lo, hi + size - 1, hi, size, "cyclic", &same));
    SUCCEEDS(datamover_layout_equal(cells, same, &equal));
    CHECK(equal == 1);
    SUCCEEDS(datamover_layout_local_elems(cells, rank, &elems));
    CHECK(elems == 1);
    SUCCEEDS(datamover_plan_create(cells, cells, &plan));
    SUCCEEDS(datamover_plan_create(cells, cells, &other));
    for (i = 0; i < size; ++i) {
        const int next = (i + 1) % size;
        SUCCEEDS(datamover_plan_add_section(i % 2 ? plan : other, i, lo + i, hi + i, next,
                                            lo + next, hi + next, NULL));
    }
    SUCCEEDS(datamover_plan_merge(plan, other, &all));
    SUCCEEDS(datamover_plan_num_terms(all, &elems));
    CHECK(elems == size);

    from.block = to.block = rank;
    from.origin = &source, to.origin = &destination;
    from.strides_bytes = to.strides_bytes = &stride;
    SUCCEEDS(datamover_array_of_const_blocks(cells, DATAMOVER_OPAQUE, 8, &from, 1, &a));
    SUCCEEDS(datamover_array_of_blocks(cells, DATAMOVER_OPAQUE, 8, &to, 1, &b));
    SUCCEEDS(datamover_mover_create(MPI_COMM_WORLD, all, a, b, NULL, &mover));
    datamover_plan_free(&plan), datamover_plan_free(&other), datamover_plan_free(&all);
    datamover_layout_free(&same);

    SUCCEEDS(datamover_mover_start(mover));
    FAILS(DATAMOVER_INVALID_STATE, datamover_mover_start(mover));
    FAILS(DATAMOVER_INVALID_STATE, datamover_mover_free(&mover));
    CHECK(mover != NULL);
    while (!done) SUCCEEDS(datamover_mover_test(mover, &done));
    CHECK(destination == 10 + (rank + size - 1) % size);
    source = 100 + rank;
    SUCCEEDS(datamover_mover_start(mover));
    SUCCEEDS(datamover_mover_wait(mover, 60));
    CHECK(destination == 100 + (rank + size - 1) % size);
    SUCCEEDS(datamover_mover_counters_get(mover, &counters));
    CHECK(counters.rounds == 2 && counters.bytes_sent == (size > 1 ? 8 : 0));
    CHECK(counters.bytes_kept == (size > 1 ? 0 : 8) &&
          counters.messages_received == (size > 1 ? 1 : 0));
    FAILS(DATAMOVER_INVALID_STATE, datamover_mover_wait(mover, -1));
    SUCCEEDS(datamover_mover_free(&mover));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_mover_create(MPI_COMM_WORLD, NULL, a, b, NULL, &mover));
    datamover_array_free(&a), datamover_array_free(&b), datamover_layout_free(&cells);
    free(lo), free(hi), free(owners);
}

/* One process lacks its partner: a deadline passes, and the mover can still be completed. */
static void test_timeout(void) {
    datamover_layout* rows = block_cyclic(2 * size, 2 * size, "(block, *)");
    datamover_layout* columns = block_cyclic(2 * size, 2 * size, "(*, block)");
    datamover_array *a = array_of(rows, 0), *b = array_of(columns, 0);
    datamover_plan* plan = NULL;
    datamover_mover* mover;
    int go = 1;
    for_each(rows, a, number);
    SUCCEEDS(datamover_redistribute(rows, columns, NULL, &plan));
    mover = bound(plan, a, b, NULL);
    if (rank == 0) {
        SUCCEEDS(datamover_mover_start(mover));
        FAILS(size > 1 ? DATAMOVER_TIMEOUT : DATAMOVER_SUCCESS, datamover_mover_wait(mover, 0));
        if (size > 1) FAILS(DATAMOVER_TIMEOUT, datamover_mover_wait(mover, 0.01));
    }
    MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank != 0) SUCCEEDS(datamover_mover_start(mover));
    if (rank != 0 || size > 1) SUCCEEDS(datamover_mover_wait(mover, (double)INFINITY));
    for_each(columns, b, expect_number);
    datamover_mover_free(&mover), datamover_plan_free(&plan);
    datamover_array_free(&a), datamover_array_free(&b);
    datamover_layout_free(&rows), datamover_layout_free(&columns);
}

static void test_layouts(void) {
    const int64_t shape[2] = {10, 12}, grid[2] = {1, 1}, first[2] = {0, 0}, ranks[1] = {size - 1};
    const int64_t offsets[3] = {0, 2, 3}, indices[3] = {5, 1, 4};
    const datamover_process_grid one = {1, 1, 0, NULL};
    const int descriptor[9] = {1, 4, 10, 12, 3, 5, 0, 0, 11};
    datamover_block_cyclic_options options = {0};
    datamover_layout *layout = NULL, *list = NULL, *matrix = NULL;
    int64_t number_of, owner, blocks[4], lo[2], hi[2], extents[2];
    int dims, i, described[9];

    options.grid = grid, options.first_process = first, options.column_major_grid = 1;
    options.ranks = ranks, options.num_ranks = 1;
    SUCCEEDS(datamover_layout_create_block_cyclic(2, shape, "(block, cyclic(2))", size, &options,
                                                  &layout));
    SUCCEEDS(datamover_layout_dims(layout, &dims));
    SUCCEEDS(datamover_layout_nprocs(layout, &number_of));
    CHECK(dims == 2 && number_of == size);
    SUCCEEDS(datamover_layout_num_blocks(layout, &number_of));
    SUCCEEDS(datamover_layout_owner(layout, 0, &owner));
    CHECK(number_of == 1 && owner == size - 1);
    SUCCEEDS(datamover_layout_domain(layout, lo, hi));
    SUCCEEDS(datamover_layout_block_extents(layout, 0, extents));
    CHECK(lo[0] == 0 && lo[1] == 0 && hi[0] == 10 && hi[1] == 12 && extents[0] == 10 &&
          extents[1] == 12);
    SUCCEEDS(datamover_layout_block_region(layout, 0, lo, hi));
    CHECK(lo[0] == 0 && lo[1] == 0 && hi[0] == 10 && hi[1] == 12);
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_layout_block_region(layout, 1, lo, hi));
    SUCCEEDS(datamover_layout_blocks_of(layout, size - 1, NULL, 0, &number_of));
    CHECK(number_of == 1);
    SUCCEEDS(datamover_layout_blocks_of(layout, size - 1, blocks, 4, &number_of));
    CHECK(blocks[0] == 0);
    FAILS(DATAMOVER_OUT_OF_RANGE,
          datamover_layout_blocks_of(layout, size - 1, blocks, 0, &number_of));

    SUCCEEDS(datamover_layout_create_index_list(1, shape, 2, offsets, indices, &list));
    SUCCEEDS(datamover_layout_local_elems(list, 0, &number_of));
    CHECK(number_of == 2);
    FAILS(DATAMOVER_UNSUPPORTED, datamover_layout_owner_of(list, offsets, &owner));
    FAILS(DATAMOVER_UNSUPPORTED, datamover_layout_block_region(list, 0, lo, hi));

    SUCCEEDS(datamover_layout_from_descriptor(descriptor, &one, size, &matrix));
    SUCCEEDS(datamover_layout_to_descriptor(matrix, 0, 4, 11, described));
    for (i = 0; i < 9; ++i) CHECK(described[i] == descriptor[i]);
    datamover_layout_free(&layout), datamover_layout_free(&list), datamover_layout_free(&matrix);
}

/* All of a matrix on process 0, with a leading dimension of 5, to block rows. */
static void test_matrix(void) {
    const datamover_process_grid one = {1, 1, 0, NULL};
    const int descriptor[9] = {1, 0, 4, 3, 2, 2, 0, 0, 5};
    int64_t data[15];
    datamover_layout *matrix = NULL, *rows = block_cyclic(4, 3, "(block, *)");
    datamover_array *a = NULL, *b = array_of(rows, 0);
    datamover_plan* plan = NULL;
    int i, j;
    for (j = 0; j < 3; ++j)
        for (i = 0; i < 5; ++i) data[i + 5 * j] = 1000 * i + j;
    SUCCEEDS(datamover_layout_from_descriptor(descriptor, &one, size, &matrix));
    SUCCEEDS(datamover_array_of_matrix(matrix, rank, descriptor, DATAMOVER_INT64, 8,
                                       rank ? NULL : data, &a));
    SUCCEEDS(datamover_redistribute(matrix, rows, NULL, &plan));
    move_once(plan, a, b, NULL);
    for_each(rows, b, expect_number);
    datamover_array_free(&a), datamover_array_free(&b), datamover_plan_free(&plan);
    datamover_layout_free(&matrix), datamover_layout_free(&rows);
}

/* Tiles to ranges of 5 elements on the last process and the first, and back. */
static void test_ranges(void) {
    const int64_t shape[2] = {9, 8}, owners[2] = {size - 1, 0};
    const int64_t num_owners = size > 1 ? 2 : 1;
    datamover_layout *tiles = block_cyclic(9, 8, "(cyclic(2), block)"), *ranges = NULL;
    datamover_array *a = array_of(tiles, 1), *b = NULL;
    datamover_plan *there = NULL, *back = NULL;
    int64_t blocks[1] = {0}, num_blocks, elems, i;
    void* origin = NULL;
    SUCCEEDS(datamover_layout_create_flat_cyclic(2, shape, 5, size, owners, num_owners, &ranges));
    SUCCEEDS(datamover_array_create(MPI_COMM_WORLD, ranges, DATAMOVER_INT64, 8, 0, NULL, NULL, &b));
    SUCCEEDS(datamover_redistribute(tiles, ranges, NULL, &there));
    SUCCEEDS(datamover_redistribute(ranges, tiles, NULL, &back));
    for_each(tiles, a, number);
    move_once(there, a, b, NULL);
    SUCCEEDS(datamover_layout_blocks_of(ranges, rank, blocks, 1, &num_blocks));
    SUCCEEDS(datamover_layout_local_elems(ranges, rank, &elems));
    CHECK(num_blocks == (rank == 0 || rank == size - 1));
    if (num_blocks) SUCCEEDS(datamover_array_block(b, blocks[0], &origin, NULL));
    for (i = 0; i < elems; ++i) {
        const int64_t flat = (i / 5 * num_owners + blocks[0]) * 5 + i % 5;
        CHECK(((const int64_t*)origin)[i] == 1000 * (flat / 8) + flat % 8);
    }
    for_each(tiles, a, number_negative);
    move_once(back, b, a, NULL);
    for_each(tiles, a, expect_number);
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_layout_create_flat_cyclic(2, shape, 0, size, NULL, 0, &ranges));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_layout_create_flat_cyclic(2, shape, 5, size, owners, 0, &ranges));
    datamover_array_free(&a), datamover_array_free(&b);
    datamover_plan_free(&there), datamover_plan_free(&back);
    datamover_layout_free(&tiles), datamover_layout_free(&ranges);
}

static void test_relations(void) {
    const int64_t from[4] = {7, 5, 3, 1}, to[4] = {0, 1, 2, 3};
    const float source[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const char* encodings[6] = {"pairs", "blocks", "runs", "dictionary", "product", "offsets"};
    const char* name = NULL;
    float there[4], buffer[4];
    int64_t elems, nbytes;
    datamover_relation *relation = NULL, *encoded = NULL;
    int i, e;
    SUCCEEDS(datamover_relation_from_pairs(4, from, to, 4, 4, &relation));
    SUCCEEDS(datamover_relation_size(relation, &elems));
    CHECK(elems == 4);
    for (e = 0; e < 6; ++e) {
        SUCCEEDS(datamover_relation_encode(relation, encodings[e], &encoded));
        SUCCEEDS(datamover_relation_encoding(encoded, &name));
        CHECK(strcmp(name, encodings[e]) == 0);
        SUCCEEDS(datamover_relation_nbytes(encoded, &nbytes));
        CHECK(nbytes > 0);
        memset(there, 0, sizeof there);
        SUCCEEDS(datamover_relation_copy(encoded, source, there));
        SUCCEEDS(datamover_relation_gather(encoded, source, buffer));
        for (i = 0; i < 4; ++i) CHECK(there[i] == source[from[i]] && buffer[i] == source[from[i]]);
        SUCCEEDS(datamover_relation_scatter(encoded, source, there));
        for (i = 0; i < 4; ++i) CHECK(there[i] == source[i]);
        SUCCEEDS(datamover_relation_free(&encoded));
    }
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_relation_encode(relation, "zip", &encoded));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_relation_from_pairs(-1, from, to, 4, 4, &encoded));
    SUCCEEDS(datamover_relation_free(&relation));
    SUCCEEDS(datamover_relation_free(&relation));
}

static void* grown(int64_t bytes) {
    void* memory = malloc(bytes > 0 ? (size_t)bytes : 1);
    CHECK(memory != NULL);
    return memory;
}

/* Halves, bytes, pieces, datatypes, put and get: each carries the same elements. */
static void test_relations_handed_on(void) {
    const int64_t from[5] = {9, 8, 0, 2, 4}, to[5] = {3, 1, 7, 6, 0}, same[5] = {3, 1, 7, 3, 0};
    int32_t source[10], expected[8] = {0}, there[8], message[5];
    datamover_relation *relation = NULL, *first = NULL, *second = NULL, *again = NULL;
    datamover_piece pieces[5];
    MPI_Datatype datatype = MPI_DATATYPE_NULL;
    int64_t begin, end, length, count, answered;
    void* bytes;
    int i, position = 0;
    for (i = 0; i < 10; ++i) source[i] = 100 + i;
    for (i = 0; i < 5; ++i) expected[to[i]] = source[from[i]];
    SUCCEEDS(datamover_relation_from_pairs(5, from, to, 4, 4, &relation));

    SUCCEEDS(datamover_relation_bounds(relation, DATAMOVER_SOURCE, &begin, &end));
    CHECK(begin == 0 && end == 40);
    SUCCEEDS(datamover_relation_bounds(relation, DATAMOVER_DESTINATION, &begin, &end));
    CHECK(begin == 0 && end == 32);

    SUCCEEDS(datamover_relation_split(relation, &first, &second));
    memset(there, 0, sizeof there);
    SUCCEEDS(datamover_relation_copy(first, source, message));
    SUCCEEDS(datamover_relation_copy(second, message, there));
    CHECK(memcmp(there, expected, sizeof there) == 0);
    SUCCEEDS(datamover_relation_join(first, second, &again));
    memset(there, 0, sizeof there);
    SUCCEEDS(datamover_relation_copy(again, source, there));
    CHECK(memcmp(there, expected, sizeof there) == 0);
    datamover_relation_free(&again);

    SUCCEEDS(datamover_relation_to_bytes(relation, NULL, 0, &length));
    bytes = grown(length);
    FAILS(DATAMOVER_OUT_OF_RANGE,
          datamover_relation_to_bytes(relation, bytes, length - 1, &length));
    SUCCEEDS(datamover_relation_to_bytes(relation, bytes, length, &length));
    SUCCEEDS(datamover_relation_from_bytes(bytes, length, &again));
    memset(there, 0, sizeof there);
    SUCCEEDS(datamover_relation_copy(again, source, there));
    CHECK(memcmp(there, expected, sizeof there) == 0);
    datamover_relation_free(&again);
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_relation_from_bytes(bytes, length - 1, &again));
    ((char*)bytes)[length / 2] ^= 1;
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_relation_from_bytes(bytes, length, &again));
    free(bytes);

    SUCCEEDS(datamover_relation_iovec(relation, DATAMOVER_SOURCE, source, pieces, 5, &count));
    for (i = 0, position = 0; i < count; position += (int)pieces[i].bytes, ++i)
        memcpy((char*)message + position, pieces[i].data, pieces[i].bytes);
    for (i = 0; i < 5; ++i) CHECK(message[i] == source[from[i]]);

    memset(message, 0, sizeof message), position = 0;
    SUCCEEDS(datamover_relation_datatype(relation, DATAMOVER_SOURCE, MPI_INT32_T, &datatype));
    MPI_Pack(source, 1, datatype, message, sizeof message, &position, MPI_COMM_SELF);
    for (i = 0; i < 5; ++i) CHECK(message[i] == source[from[i]]);
    MPI_Type_free(&datatype);
    memset(there, 0, sizeof there), position = 0;
    SUCCEEDS(
        datamover_relation_datatype(relation, DATAMOVER_DESTINATION, MPI_DATATYPE_NULL, &datatype));
    MPI_Unpack(message, sizeof message, &position, there, 1, datatype, MPI_COMM_SELF);
    CHECK(memcmp(there, expected, sizeof there) == 0);
    MPI_Type_free(&datatype);
    FAILS(DATAMOVER_WRONG_TYPE,
          datamover_relation_datatype(relation, DATAMOVER_SOURCE, MPI_DOUBLE, &datatype));

    SUCCEEDS(datamover_relation_put_message(relation, source, NULL, 0, &length));
    bytes = grown(length);
    SUCCEEDS(datamover_relation_put_message(relation, source, bytes, length, &length));
    memset(there, 0, sizeof there);
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_accept_put(bytes, length, there, 0, 31));
    CHECK(there[0] == 0 && there[7] == 0);
    SUCCEEDS(datamover_accept_put(bytes, length, there, 0, 32));
    CHECK(memcmp(there, expected, sizeof there) == 0);
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_accept_put(bytes, length - 1, there, 0, 32));
    free(bytes);
    SUCCEEDS(datamover_relation_get_request(relation, NULL, 0, &length));
    bytes = grown(length);
    SUCCEEDS(datamover_relation_get_request(relation, bytes, length, &length));
    FAILS(DATAMOVER_OUT_OF_RANGE,
          datamover_answer_get(bytes, length, source, 0, 36, message, sizeof message, &answered));
    SUCCEEDS(
        datamover_answer_get(bytes, length, source, 0, 40, message, sizeof message, &answered));
    CHECK(answered == 20);
    memset(there, 0, sizeof there);
    SUCCEEDS(datamover_relation_scatter(relation, message, there));
    CHECK(memcmp(there, expected, sizeof there) == 0);
    free(bytes);

    datamover_relation_free(&relation), datamover_relation_free(&first);
    datamover_relation_free(&second);
    SUCCEEDS(datamover_relation_from_pairs(5, from, same, 4, 4, &relation));
    memset(there, 0, sizeof there);
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_relation_copy(relation, source, there));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_relation_scatter(relation, source, there));
    CHECK(there[3] == 0);
    SUCCEEDS(datamover_relation_update(relation, source, DATAMOVER_INT32, there, DATAMOVER_INT32,
                                       "add"));
    CHECK(there[3] == source[9] + source[2] && there[1] == source[8]);
    FAILS(DATAMOVER_WRONG_TYPE, datamover_relation_update(relation, source, DATAMOVER_INT64, there,
                                                          DATAMOVER_INT32, "add"));
    datamover_relation_free(&relation);
}

/* Nothing is made, the code is the promised one, and the message says something. */
static void test_errors(void) {
    const int64_t shape[2] = {4, 4}, negative[2] = {-1, 4}, far[2] = {9, 9}, zero[2] = {0, 0};
    datamover_layout *layout = NULL, *good = block_cyclic(4, 4, "(block, *)");
    datamover_layout* other = block_cyclic(5, 4, "(block, *)");
    datamover_layout* lists = NULL;
    int64_t* offsets = calloc((size_t)size + 1, sizeof *offsets); /* nobody holds anything */
    datamover_plan *plan = NULL, *fine = NULL;
    datamover_array *array = NULL, *have = array_of(good, 0);
    datamover_mover* mover = NULL;
    datamover_mover_options options = {0};
    int64_t owner;

    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_layout_create_block_cyclic(2, negative, "(*, *)", 1, NULL, &layout));
    CHECK(strstr(datamover_error_message(), "-1") != NULL);
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_layout_create_block_cyclic(2, shape, "(blok, *)", 1, NULL, &layout));
    CHECK(strstr(datamover_error_message(), "blok") != NULL);
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_layout_create_block_cyclic(2, NULL, "(*, *)", 1, NULL, &layout));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_layout_create_block_cyclic(2, shape, "(*, *)", 1, NULL, NULL));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_layout_create_block_cyclic(2, shape, NULL, 1, NULL, &layout));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_layout_create_block_cyclic(9, shape, "(*, *)", 1, NULL, &layout));
    FAILS(DATAMOVER_OUT_OF_RANGE, datamover_layout_owner_of(good, far, &owner));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_layout_owner_of(NULL, zero, &owner));
    FAILS(DATAMOVER_MISMATCH, datamover_redistribute(good, other, NULL, &plan));
    FAILS(DATAMOVER_OUT_OF_RANGE,
          datamover_redistribute_section(good, zero, far, good, zero, far, NULL, &plan));
    SUCCEEDS(datamover_layout_create_index_list(2, shape, size, offsets, zero, &lists));
    FAILS(DATAMOVER_UNSUPPORTED, datamover_halo(lists, zero, zero, NULL, NULL, NULL, 1, &plan));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_halo(good, negative, zero, NULL, NULL, NULL, 1, &plan));
    SUCCEEDS(datamover_layout_free(&lists));
    free(offsets);
    FAILS(DATAMOVER_WRONG_TYPE, datamover_array_create(MPI_COMM_WORLD, good, DATAMOVER_FLOAT64, 4,
                                                       0, NULL, NULL, &array));
    FAILS(
        DATAMOVER_INVALID_ARGUMENT,
        datamover_array_create(MPI_COMM_WORLD, good, (datamover_type)99, 4, 0, NULL, NULL, &array));
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_array_create(MPI_COMM_NULL, good, DATAMOVER_FLOAT64, 8, 0, NULL, NULL, &array));
    /* One process is wrong, all are told. */
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_array_create(MPI_COMM_WORLD, rank == size - 1 ? NULL : good, DATAMOVER_FLOAT64,
                                 8, 0, NULL, NULL, &array));
    SUCCEEDS(datamover_redistribute(good, good, NULL, &fine));
    options.op = rank == size - 1 ? "subtract" : "add";
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_mover_create(MPI_COMM_WORLD, fine, have, have, &options, &mover));
    CHECK(strstr(datamover_error_message(), "subtract") != NULL);
    options.op = NULL, options.transport = "pigeons";
    FAILS(DATAMOVER_INVALID_ARGUMENT,
          datamover_mover_create(MPI_COMM_WORLD, fine, have, have, &options, &mover));
    FAILS(DATAMOVER_INVALID_ARGUMENT, datamover_mover_start(NULL));
    CHECK(layout == NULL && plan == NULL && array == NULL && mover == NULL);
    CHECK(strcmp(datamover_error_name(DATAMOVER_TIMEOUT), "timeout") == 0);
    CHECK(strcmp(datamover_error_name(DATAMOVER_SUCCESS), "success") == 0);
    datamover_plan_free(&fine), datamover_array_free(&have);
    datamover_layout_free(&good), datamover_layout_free(&other);
}

int main(int argc, char** argv) {
    begin(&argc, &argv);
    test_layouts();
    test_redistributions();
    test_updates_and_rebinding();
    test_halo_of_user_memory();
    test_plan_by_hand();
    test_timeout();
    test_matrix();
    test_ranges();
    test_relations();
    test_relations_handed_on();
    test_errors();
    return finish();
}

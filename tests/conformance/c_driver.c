/* SPDX-License-Identifier: BSD-3-Clause */
/* Driver of the conformance cases in C. `mpiexec -n P c_driver CASES DIRECTORY` writes
 * DIRECTORY/RANK: on each line, a case's name and this process's elements, or `error` and the
 * code. */
#include <datamover/datamover.h>
#include <string.h>

#include "driver.h"

static int rank, size;

/* The next index of [lo, hi), the last dimension fastest; 0 after the last. */
static int next(int dims, int64_t* index, const int64_t* lo, const int64_t* hi) {
    for (int d = dims; d-- > 0; index[d] = lo[d])
        if (++index[d] < hi[d]) return 1;
    return 0;
}

static int is_empty(int dims, const int64_t* lo, const int64_t* hi) {
    for (int d = 0; d < dims; ++d)
        if (lo[d] >= hi[d]) return 1;
    return 0;
}

static int make_layout(datamover_layout** layout, const said_layout* said) {
    datamover_block_cyclic_options options = {0};
    if (said->num_boxes > 0)
        return datamover_layout_create_floor_plan(said->dims, said->num_boxes, said->lo, said->hi,
                                                  said->owners, size, layout);
    options.grid = said->grid;
    options.ranks = said->num_ranks ? said->ranks : NULL;
    options.num_ranks = said->num_ranks;
    return datamover_layout_create_block_cyclic(said->dims, said->shape, said->distribution, size,
                                                &options, layout);
}

static int make_plan(datamover_plan** plan, const said_redistribution* said,
                     const datamover_layout* from, const datamover_layout* to) {
    const int* axes = said->with_axes ? said->axes : NULL;
    if (said->partial)
        return datamover_redistribute_partial(from, NULL, NULL, to, NULL, NULL, axes, 1, plan);
    if (said->with_sections)
        return datamover_redistribute_section(from, said->source_lo, said->source_hi, to,
                                              said->destination_lo, said->destination_hi, axes,
                                              plan);
    return datamover_redistribute(from, to, axes, plan);
}

/* Makes an array of this process's blocks in `data`, densely, and gives the number of elements.
 * They are numbered by their indices within the domain if `is_numbered`, else UNTOUCHED. */
static int attach(datamover_array** array, const datamover_layout* layout, const said_layout* said,
                  int64_t* data, int is_numbered, int64_t* elems) {
    const int dims = said->dims;
    int64_t lo[MOST_DIMS], hi[MOST_DIMS], shape[MOST_DIMS], extents[MOST_DIMS], numbers[MOST_BOXES];
    int64_t strides[MOST_BOXES][MOST_DIMS], zeros[MOST_DIMS] = {0}, count = 0;
    datamover_block blocks[MOST_BOXES] = {{0}};
    int code;
    *elems = 0;
    if ((code = datamover_layout_domain(layout, lo, hi))) return code;
    for (int d = 0; d < dims; ++d) shape[d] = hi[d] - lo[d];
    if ((code = datamover_layout_blocks_of(layout, rank, numbers, MOST_BOXES, &count))) return code;
    for (int64_t i = 0; i < count; ++i) {
        int64_t index[MOST_DIMS] = {0}, global[MOST_DIMS], stride = sizeof(int64_t);
        if ((code = datamover_layout_block_extents(layout, numbers[i], extents))) return code;
        for (int d = dims; d-- > 0; stride *= extents[d]) strides[i][d] = stride;
        blocks[i].block = numbers[i], blocks[i].strides_bytes = strides[i];
        blocks[i].origin = data + *elems;
        if (is_empty(dims, zeros, extents)) continue;
        do {
            if (said->num_boxes > 0)
                for (int d = 0; d < dims; ++d)
                    global[d] = index[d] + said->lo[numbers[i] * dims + d] - lo[d];
            else if ((code = datamover_layout_global_index(layout, rank, index, global)))
                return code;
            data[(*elems)++] = is_numbered ? flat(dims, global, shape) : UNTOUCHED;
        } while (next(dims, index, zeros, extents));
    }
    return datamover_array_of_blocks(layout, DATAMOVER_INT64, 8, blocks, count, array);
}

/* Both arrays lie in memory of our own. */
static int redistribute(const said_redistribution* said, FILE* out) {
    datamover_layout *from = NULL, *to = NULL;
    datamover_plan* plan = NULL;
    datamover_array *a = NULL, *b = NULL;
    datamover_mover* mover = NULL;
    static int64_t sent[MOST_ELEMS], received[MOST_ELEMS];
    int64_t elems = 0;
    int code;

    if ((code = make_layout(&from, &said->source))) goto end;
    if ((code = make_layout(&to, &said->destination))) goto end;
    if ((code = make_plan(&plan, said, from, to))) goto end;
    if ((code = attach(&a, from, &said->source, sent, 1, &elems))) goto end;
    if ((code = attach(&b, to, &said->destination, received, 0, &elems))) goto end;
    if ((code = datamover_mover_create(MPI_COMM_WORLD, plan, a, b, NULL, &mover))) goto end;
    if ((code = datamover_mover_run(mover))) goto end;
    for (int64_t i = 0; i < elems; ++i) fprintf(out, " %lld", (long long)received[i]);
end:
    datamover_mover_free(&mover), datamover_array_free(&a), datamover_array_free(&b);
    datamover_plan_free(&plan), datamover_layout_free(&from), datamover_layout_free(&to);
    return code;
}

/* Calls for each element of a block, ghosts included: sets it, or writes it out. */
static int each_element(const datamover_array* array, const said_halo* said, int64_t number,
                        FILE* out) {
    int64_t extents[MOST_DIMS], strides[MOST_DIMS], lo[MOST_DIMS], hi[MOST_DIMS];
    int64_t index[MOST_DIMS], shape[MOST_DIMS], place[MOST_DIMS], rest = number;
    void* origin = NULL;
    int code = datamover_array_block(array, number, &origin, strides);
    if (code) return code;
    for (int d = said->dims; d-- > 0; rest /= said->grid[d]) {
        shape[d] = said->hi[d] - said->lo[d];
        extents[d] = shape[d] / said->grid[d];
        place[d] = rest % said->grid[d] * extents[d];
        index[d] = lo[d] = -said->lower[d];
        hi[d] = extents[d] + said->upper[d];
    }
    if (is_empty(said->dims, lo, hi)) return 0;
    do {
        int64_t* element;
        int64_t offset_bytes = 0, global[MOST_DIMS];
        int inside = 1;
        for (int d = 0; d < said->dims; ++d) {
            offset_bytes += index[d] * strides[d];
            global[d] = place[d] + index[d];
            inside = inside && index[d] >= 0 && index[d] < extents[d];
        }
        element = (int64_t*)(void*)((char*)origin + offset_bytes);
        if (out)
            fprintf(out, " %lld", (long long)*element);
        else
            *element = inside ? flat(said->dims, global, shape) : UNTOUCHED;
    } while (next(said->dims, index, lo, hi));
    return 0;
}

static int fill_halo(const said_halo* said, FILE* out) {
    datamover_layout* blocks = NULL;
    datamover_plan* plan = NULL;
    datamover_array* array = NULL;
    datamover_mover* mover = NULL;
    int64_t mine[MOST_RANKS], count = 0;
    int code;
    if ((code = datamover_layout_create_uniform(said->dims, said->lo, said->hi, said->grid, size,
                                                &blocks)))
        goto end;
    if ((code = datamover_halo(blocks, said->lower, said->upper,
                               said->is_periodic ? said->periodic_lo : NULL,
                               said->is_periodic ? said->periodic_hi : NULL,
                               said->with_wraps ? said->wraps : NULL, said->corners, &plan)))
        goto end;
    if ((code = datamover_array_create(MPI_COMM_WORLD, blocks, DATAMOVER_INT64, 8, 0, said->lower,
                                       said->upper, &array)))
        goto end;
    if ((code = datamover_layout_blocks_of(blocks, rank, mine, MOST_RANKS, &count))) goto end;
    for (int64_t i = 0; i < count; ++i)
        if ((code = each_element(array, said, mine[i], NULL))) goto end;
    if ((code = datamover_mover_create(MPI_COMM_WORLD, plan, array, array, NULL, &mover))) goto end;
    if ((code = datamover_mover_run(mover))) goto end;
    for (int64_t i = 0; i < count; ++i)
        if ((code = each_element(array, said, mine[i], out))) goto end;
end:
    datamover_mover_free(&mover), datamover_array_free(&array), datamover_plan_free(&plan);
    datamover_layout_free(&blocks);
    return code;
}

int main(int argc, char** argv) {
    char path[4096], operation[WORD];
    static said_redistribution redistribution;
    static said_halo halo;
    FILE *cases, *out;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    must(argc == 3);
    snprintf(path, sizeof path, "%s/%d", argv[2], rank);
    cases = fopen(argv[1], "r"), out = fopen(path, "w");
    must(cases != NULL && out != NULL);
    while (fscanf(cases, "%127s", operation) == 1) {
        int code;
        if (strcmp(operation, "halo") == 0) {
            read_halo(cases, &halo);
            fprintf(out, "%s", halo.name);
            code = fill_halo(&halo, out);
        } else {
            read_redistribution(cases, &redistribution);
            fprintf(out, "%s", redistribution.name);
            code = redistribute(&redistribution, out);
        }
        if (code) fprintf(out, " error %s", datamover_error_name(code));
        fprintf(out, "\n");
    }
    fclose(cases), fclose(out);
    MPI_Finalize();
    return 0;
}

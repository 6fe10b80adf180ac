/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes out of the conformance cases in C? mpiexec -n P c_driver CASES DIRECTORY writes
 * DIRECTORY/RANK: a case's name and this process's elements, or `error` and the code, a line. */
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
    options.grid = said->grid;
    options.ranks = said->num_ranks ? said->ranks : NULL;
    options.num_ranks = said->num_ranks;
    return datamover_layout_block_cyclic(layout, said->dims, said->shape, said->distribution, size,
                                         &options);
}

/* The source lies in memory of our own, numbered; the destination in the library's. */
static int redistribute(const said_redistribution* said, FILE* out) {
    const int dims = said->source.dims;
    datamover_layout *from = NULL, *to = NULL;
    datamover_plan* plan = NULL;
    datamover_array *a = NULL, *b = NULL;
    datamover_mover* mover = NULL;
    datamover_block block = {0};
    int64_t extents[MOST_DIMS], strides[MOST_DIMS], index[MOST_DIMS] = {0}, global[MOST_DIMS];
    int64_t zeros[MOST_DIMS] = {0}, elems = 0, number, at = 0, count = 0, one;
    int64_t* data = NULL;
    void* origin = NULL;
    int code;

    if ((code = make_layout(&from, &said->source))) goto end;
    if ((code = make_layout(&to, &said->destination))) goto end;
    if (said->with_sections)
        code = datamover_redistribute_section(&plan, from, said->source_lo, said->source_hi, to,
                                              said->destination_lo, said->destination_hi,
                                              said->with_axes ? said->axes : NULL);
    else
        code = datamover_redistribute(&plan, from, to, said->with_axes ? said->axes : NULL);
    if (code) goto end;

    if ((code = datamover_layout_local_elems(from, rank, &elems))) goto end;
    if ((code = datamover_layout_local_shape(from, rank, extents))) goto end;
    if ((code = datamover_layout_blocks_of(from, rank, NULL, 0, &count))) goto end;
    if (count && (code = datamover_layout_blocks_of(from, rank, &block.block, 1, &one))) goto end;
    data = malloc(sizeof(int64_t) * (size_t)(elems + 1));
    for (int d = dims, stride = sizeof(int64_t); d-- > 0; stride *= (int)extents[d])
        strides[d] = stride;
    if (elems > 0) do {
            if ((code = datamover_layout_global_index(from, rank, index, global))) goto end;
            data[at++] = flat(dims, global, said->source.shape);
        } while (next(dims, index, zeros, extents));
    block.origin = data, block.strides_bytes = strides;
    if ((code = datamover_array_of_blocks(&a, from, DATAMOVER_INT64, 8, &block, count))) goto end;
    if ((code = datamover_array_new(&b, MPI_COMM_WORLD, to, DATAMOVER_INT64, 8, 0, NULL, NULL)))
        goto end;
    if ((code = datamover_layout_local_elems(to, rank, &elems))) goto end;
    if (elems > 0) {
        if ((code = datamover_layout_blocks_of(to, rank, &number, 1, &one))) goto end;
        if ((code = datamover_array_block(b, number, &origin, NULL))) goto end;
        for (int64_t i = 0; i < elems; ++i) ((int64_t*)origin)[i] = UNTOUCHED;
    }
    if ((code = datamover_mover_new(&mover, MPI_COMM_WORLD, plan, a, b, NULL))) goto end;
    if ((code = datamover_mover_move(mover))) goto end;
    for (int64_t i = 0; i < elems; ++i) fprintf(out, " %lld", (long long)((int64_t*)origin)[i]);
end:
    datamover_mover_free(&mover), datamover_array_free(&a), datamover_array_free(&b);
    datamover_plan_free(&plan), datamover_layout_free(&from), datamover_layout_free(&to);
    free(data);
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
    if ((code =
             datamover_layout_uniform(&blocks, said->dims, said->lo, said->hi, said->grid, size)))
        goto end;
    if ((code = datamover_halo(&plan, blocks, said->lower, said->upper,
                               said->is_periodic ? said->periodic_lo : NULL,
                               said->is_periodic ? said->periodic_hi : NULL,
                               said->with_wraps ? said->wraps : NULL, said->corners)))
        goto end;
    if ((code = datamover_array_new(&array, MPI_COMM_WORLD, blocks, DATAMOVER_INT64, 8, 0,
                                    said->lower, said->upper)))
        goto end;
    if ((code = datamover_layout_blocks_of(blocks, rank, mine, MOST_RANKS, &count))) goto end;
    for (int64_t i = 0; i < count; ++i)
        if ((code = each_element(array, said, mine[i], NULL))) goto end;
    if ((code = datamover_mover_new(&mover, MPI_COMM_WORLD, plan, array, array, NULL))) goto end;
    if ((code = datamover_mover_move(mover))) goto end;
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts in C: defining which process owns which elements, and querying it. */
#include <stdlib.h>

#include "checked.h"

/* The columns of a matrix of 6 x 10, distributed in pairs. */
static void block_cyclic(int rank, int size) {
    const int64_t shape[2] = {6, 10}, index[2] = {5, 3};
    int64_t nprocs, num_blocks, lo[2], hi[2], owner, extents[2], local[2], global[2], elems;
    int dims, equal;
    datamover_layout *pairs, *again;

    succeed(datamover_layout_create_block_cyclic(2, shape, "(*, cyclic(2))", size, NULL, &pairs));
    succeed(datamover_layout_dims(pairs, &dims));
    succeed(datamover_layout_nprocs(pairs, &nprocs));
    succeed(datamover_layout_domain(pairs, lo, hi));
    expect(dims == 2 && nprocs == size, "it has two dimensions, for all processes");
    expect(lo[0] == 0 && lo[1] == 0 && hi[0] == 6 && hi[1] == 10, "its indices are [0, shape)");

    /* A block is the part of one process: column 3 is in the second pair. */
    succeed(datamover_layout_num_blocks(pairs, &num_blocks));
    expect(num_blocks == size, "each process has one block");
    succeed(datamover_layout_owner_of(pairs, index, &owner));
    expect(owner == 1 % size, "pair 1 belongs to process 1");
    succeed(datamover_layout_local_shape(pairs, rank, extents));
    succeed(datamover_layout_local_elems(pairs, rank, &elems));
    expect(elems == extents[0] * extents[1], "it holds as many elements as its local array has");

    succeed(datamover_layout_local_index(pairs, index, local));
    succeed(datamover_layout_global_index(pairs, owner, local, global));
    expect(global[0] == index[0] && global[1] == index[1], "there and back is the same index");

    succeed(datamover_layout_create_block_cyclic(2, shape, "(*, cyclic(2))", size, NULL, &again));
    succeed(datamover_layout_equal(pairs, again, &equal));
    expect(equal, "they say the same");
    succeed(datamover_layout_free(&pairs));
    succeed(datamover_layout_free(&again));
}

/* Boxes of a plane, as adaptive meshes have them: by hand, cut evenly, or in tiles. */
static void floor_plans(int size) {
    const int64_t lo[2] = {0, 0}, hi[2] = {8, 8}, grid[2] = {2, 4}, tile[2] = {4, 2};
    const int64_t los[4] = {0, 0, 4, 4}, his[4] = {4, 8, 8, 8};
    int64_t owners[2], first[2], last[2], extents[2], num_blocks, owner;
    datamover_layout* layout;

    owners[0] = 0, owners[1] = size - 1;
    succeed(datamover_layout_create_floor_plan(2, 2, los, his, owners, size, &layout));
    succeed(datamover_layout_domain(layout, first, last));
    expect(first[0] == 0 && last[1] == 8, "the domain is the box around all blocks");
    succeed(datamover_layout_owner(layout, 1, &owner));
    succeed(datamover_layout_block_extents(layout, 1, extents));
    expect(owner == size - 1 && extents[0] == 4 && extents[1] == 4, "block 1 is as it was said");
    succeed(datamover_layout_free(&layout));

    succeed(datamover_layout_create_uniform(2, lo, hi, grid, size, &layout));
    succeed(datamover_layout_num_blocks(layout, &num_blocks));
    expect(num_blocks == 8, "2 x 4 blocks");
    succeed(datamover_layout_block_region(layout, 5, first, last));
    expect(first[0] == 4 && last[0] == 8 && first[1] == 2 && last[1] == 4, "block 5 is the sixth");
    succeed(datamover_layout_free(&layout));

    succeed(datamover_layout_create_tiles(2, lo, hi, tile, size, "cyclic", &layout));
    succeed(datamover_layout_owner(layout, 3, &owner));
    expect(owner == 3 % size, "tiles are dealt round robin");
    succeed(datamover_layout_free(&layout));
}

/* Elements one by one: 12 of them, the odd ones with process 0. */
static void index_lists(int rank, int size) {
    const int64_t shape[1] = {12};
    int64_t indices[12] = {1, 3, 5, 7, 9, 11, 0, 2, 4, 6, 8, 10}, mine[12], count = 0, elems, i;
    int64_t* offsets = malloc(sizeof(int64_t) * (size_t)(size + 1));
    const int64_t* lists[1];
    datamover_layout *whole, *own;

    offsets[0] = 0;
    for (i = 1; i <= size; ++i) offsets[i] = i == size ? 12 : 6;
    succeed(datamover_layout_create_index_list(1, shape, size, offsets, indices, &whole));
    succeed(datamover_layout_local_elems(whole, rank, &elems));
    expect(elems == offsets[rank + 1] - offsets[rank], "as long as its list");

    /* The same if each process has only its own list: no process has all lists. */
    for (i = offsets[rank]; i < offsets[rank + 1]; ++i) mine[count++] = indices[i];
    lists[0] = mine;
    succeed(datamover_layout_create_index_lists(MPI_COMM_WORLD, 1, shape, 1, &count, lists, NULL, 0,
                                                &own));
    succeed(datamover_layout_local_elems(own, rank, &elems));
    expect(elems == count, "as long as its list");
    succeed(datamover_layout_free(&whole));
    succeed(datamover_layout_free(&own));
    free(offsets);
}

int main(int argc, char** argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    block_cyclic(rank, size);
    floor_plans(size);
    index_lists(rank, size);
    if (rank == 0) puts("layouts: as said");
    MPI_Finalize();
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Input and output of the C and C++ drivers of the conformance cases.
 *
 * Each line is one case, as words. A layout is: dims, number of boxes, and for each its lower
 * corner, upper end and owner; or, with 0 boxes: shape, distribution, grid, number of ranks, ranks.
 * redistribute: name, layout, layout, 1 and axes or 0, 1 and the bounds of both sections or 0,
 * partial. halo: name, dims, lo, hi, grid, lower, upper, 1 and the periodic region's bounds or 0, 1
 * and the wraps or 0, corners. */
#ifndef DATAMOVER_TESTS_CONFORMANCE_DRIVER_H
#define DATAMOVER_TESTS_CONFORMANCE_DRIVER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_DIMS = 8,
    MOST_RANKS = 64,
    MOST_BOXES = 8,
    MOST_ELEMS = 1000,
    WORD = 128,
    UNTOUCHED = -1
};

typedef struct said_layout {
    int dims;
    int64_t num_boxes, lo[MOST_BOXES * MOST_DIMS], hi[MOST_BOXES * MOST_DIMS], owners[MOST_BOXES];
    int64_t shape[MOST_DIMS], grid[MOST_DIMS], ranks[MOST_RANKS], num_ranks;
    char distribution[WORD];
} said_layout;

typedef struct said_redistribution {
    char name[WORD];
    said_layout source, destination;
    int with_axes, axes[MOST_DIMS], with_sections, partial;
    int64_t source_lo[MOST_DIMS], source_hi[MOST_DIMS];
    int64_t destination_lo[MOST_DIMS], destination_hi[MOST_DIMS];
} said_redistribution;

typedef struct said_halo {
    char name[WORD];
    int dims, is_periodic, with_wraps, wraps[MOST_DIMS], corners;
    int64_t lo[MOST_DIMS], hi[MOST_DIMS], grid[MOST_DIMS], lower[MOST_DIMS], upper[MOST_DIMS];
    int64_t periodic_lo[MOST_DIMS], periodic_hi[MOST_DIMS];
} said_halo;

static void must(int holds) {
    if (holds) return;
    fprintf(stderr, "the cases cannot be read\n");
    exit(2);
}
static void read_word(FILE* file, char word[WORD]) {
    must(fscanf(file, "%127s", word) == 1);
}
static int64_t read_number(FILE* file) {
    long long number;
    must(fscanf(file, "%lld", &number) == 1);
    return number;
}
static void read_numbers(FILE* file, int64_t count, int64_t* numbers) {
    for (int64_t i = 0; i < count; ++i) numbers[i] = read_number(file);
}
static void read_ints(FILE* file, int64_t count, int* numbers) {
    for (int64_t i = 0; i < count; ++i) numbers[i] = (int)read_number(file);
}
static void read_layout(FILE* file, said_layout* layout) {
    layout->dims = (int)read_number(file);
    must(layout->dims >= 1 && layout->dims <= MOST_DIMS);
    layout->num_boxes = read_number(file);
    must(layout->num_boxes >= 0 && layout->num_boxes <= MOST_BOXES);
    for (int64_t i = 0; i < layout->num_boxes; ++i) {
        read_numbers(file, layout->dims, layout->lo + i * layout->dims);
        read_numbers(file, layout->dims, layout->hi + i * layout->dims);
        layout->owners[i] = read_number(file);
    }
    if (layout->num_boxes > 0) return;
    read_numbers(file, layout->dims, layout->shape);
    read_word(file, layout->distribution);
    read_numbers(file, layout->dims, layout->grid);
    layout->num_ranks = read_number(file);
    must(layout->num_ranks >= 0 && layout->num_ranks <= MOST_RANKS);
    read_numbers(file, layout->num_ranks, layout->ranks);
}
static void read_redistribution(FILE* file, said_redistribution* said) {
    read_word(file, said->name);
    read_layout(file, &said->source);
    read_layout(file, &said->destination);
    said->with_axes = (int)read_number(file);
    if (said->with_axes) read_ints(file, said->source.dims, said->axes);
    said->with_sections = (int)read_number(file);
    if (said->with_sections) {
        read_numbers(file, said->source.dims, said->source_lo);
        read_numbers(file, said->source.dims, said->source_hi);
        read_numbers(file, said->destination.dims, said->destination_lo);
        read_numbers(file, said->destination.dims, said->destination_hi);
    }
    said->partial = (int)read_number(file);
}
static void read_halo(FILE* file, said_halo* said) {
    read_word(file, said->name);
    said->dims = (int)read_number(file);
    must(said->dims >= 1 && said->dims <= MOST_DIMS);
    read_numbers(file, said->dims, said->lo);
    read_numbers(file, said->dims, said->hi);
    read_numbers(file, said->dims, said->grid);
    read_numbers(file, said->dims, said->lower);
    read_numbers(file, said->dims, said->upper);
    said->is_periodic = (int)read_number(file);
    if (said->is_periodic) {
        read_numbers(file, said->dims, said->periodic_lo);
        read_numbers(file, said->dims, said->periodic_hi);
    }
    said->with_wraps = (int)read_number(file);
    if (said->with_wraps) read_ints(file, said->dims, said->wraps);
    said->corners = (int)read_number(file);
}

/* The number of an index of a shape, the last dimension fastest. */
static int64_t flat(int dims, const int64_t* index, const int64_t* shape) {
    int64_t number = 0;
    for (int d = 0; d < dims; ++d) number = number * shape[d] + index[d];
    return number;
}

#endif

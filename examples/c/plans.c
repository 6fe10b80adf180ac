/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans in C: making them by hand, and executing them in several ways. */
#include "checked.h"

enum { EACH = 4 }; /* points of a line that a process has */

static int rank, size;

/* The points of this process, in memory of its own. */
static datamover_array* array_in(const datamover_layout* line, double* points) {
    const int64_t stride_bytes = sizeof(double);
    datamover_block block = {0};
    datamover_array* array;
    block.block = rank;
    block.origin = points;
    block.strides_bytes = &stride_bytes;
    succeed(datamover_array_of_blocks(line, DATAMOVER_FLOAT64, sizeof(double), &block, 1, &array));
    return array;
}

/* The same, read only. */
static datamover_array* array_of(const datamover_layout* line, const double* points) {
    const int64_t stride_bytes = sizeof(double);
    datamover_block block = {0};
    datamover_array* array;
    block.block = rank;
    block.origin = (void*)points;
    block.strides_bytes = &stride_bytes;
    succeed(datamover_array_of_const_blocks(line, DATAMOVER_FLOAT64, sizeof(double), &block, 1,
                                            &array));
    return array;
}

/* The first two points of each process go to the last two of the next one. */
static datamover_plan* to_the_next(const datamover_layout* line) {
    datamover_plan* plan;
    int64_t process, num_terms;
    succeed(datamover_plan_create(line, line, &plan));
    for (process = 0; process < size; ++process) {
        const int64_t next = (process + 1) % size;
        const int64_t source_lo = process * EACH, source_hi = source_lo + 2;
        const int64_t destination_lo = next * EACH + 2, destination_hi = destination_lo + 2;
        succeed(datamover_plan_add_section(plan, process, &source_lo, &source_hi, next,
                                           &destination_lo, &destination_hi, NULL));
    }
    succeed(datamover_plan_num_terms(plan, &num_terms));
    expect(num_terms == size, "one term for each process");
    return plan;
}

/* Every second point of a process goes to the first two of the same process. */
static datamover_plan* every_second(const datamover_layout* line) {
    datamover_plan* plan;
    int64_t process;
    const int64_t two = 2;
    succeed(datamover_plan_create(line, line, &plan));
    for (process = 0; process < size; ++process) {
        const int64_t lo = process * EACH, source_hi = lo + EACH, destination_hi = lo + 2;
        succeed(datamover_plan_add_strided_section(plan, process, &lo, &source_hi, &two, process,
                                                   &lo, &destination_hi, NULL, NULL));
    }
    return plan;
}

/* Both in one plan, and its reverse. */
static void two_in_one(const datamover_layout* line) {
    datamover_plan *forth = to_the_next(line), *second = every_second(line), *both, *back;
    const double before[EACH] = {1 + 10. * rank, 2 + 10. * rank, 3 + 10. * rank, 4 + 10. * rank};
    const double of_last = 10. * ((rank + size - 1) % size);
    double after[EACH] = {0}, returned[EACH] = {0};
    datamover_array *source = array_of(line, before), *destination = array_in(line, after);
    datamover_array* there = array_in(line, returned);
    datamover_mover* mover;
    datamover_mover_counters counters;

    succeed(datamover_plan_merge(forth, second, &both));
    succeed(datamover_mover_create(MPI_COMM_WORLD, both, source, destination, NULL, &mover));
    succeed(datamover_mover_run(mover));
    expect(after[0] == before[0] && after[1] == before[2], "every second point");
    expect(after[2] == of_last + 1 && after[3] == of_last + 2, "those of the process before");
    succeed(datamover_mover_counters_get(mover, &counters));
    expect(counters.rounds == 1, "one round");
    succeed(datamover_mover_free(&mover));

    succeed(datamover_plan_reverse(forth, &back));
    succeed(datamover_mover_create(MPI_COMM_WORLD, back, destination, there, NULL, &mover));
    succeed(datamover_mover_run(mover));
    expect(returned[0] == before[0] && returned[1] == before[1], "they are back");
    succeed(datamover_mover_free(&mover));
    succeed(datamover_plan_free(&forth));
    succeed(datamover_plan_free(&second));
    succeed(datamover_plan_free(&both));
    succeed(datamover_plan_free(&back));
    succeed(datamover_array_free(&source));
    succeed(datamover_array_free(&destination));
    succeed(datamover_array_free(&there));
}

/* Aborts a move. Its communicator can no longer be used. */
static void give_up(const datamover_plan* plan, const datamover_array* from,
                    const datamover_array* to) {
    datamover_mover* mover;
    MPI_Comm own;
    int code;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    succeed(datamover_mover_create(own, plan, from, to, NULL, &mover));
    MPI_Barrier(own);
    code = datamover_mover_start(mover);
    expect(code == DATAMOVER_SUCCESS || code == DATAMOVER_PEER_FAILED, "others may be faster");
    succeed(datamover_mover_abort(&mover));
    MPI_Comm_free(&own);
}

/* Polled, with other arrays, and several in flight. */
static void ways_to_move(const datamover_layout* line) {
    datamover_plan* plan = to_the_next(line);
    double u[EACH] = {1, 2, 3, 4}, v[EACH] = {0}, w[EACH] = {0}, x[EACH] = {0};
    datamover_array *from = array_in(line, u), *to = array_in(line, v);
    datamover_array *to_w = array_in(line, w), *to_x = array_in(line, x);
    const datamover_array* const sources[2] = {from, from};
    const datamover_array* const destinations[2] = {to_w, to_x};
    datamover_move move;
    datamover_mover* mover;
    int done = 0;

    succeed(datamover_set_timeout(60)); /* of all waits from now on */
    succeed(datamover_mover_create(MPI_COMM_WORLD, plan, from, to, NULL, &mover));
    succeed(datamover_mover_start(mover));
    while (!done) succeed(datamover_mover_test(mover, &done)); /* and computes in between */
    expect(v[3] == 2, "complete");

    succeed(datamover_mover_rebind(MPI_COMM_WORLD, mover, from, to_w));
    succeed(datamover_mover_run(mover));
    expect(w[3] == 2, "into the other array");
    succeed(datamover_mover_free(&mover));

    /* Two arrays in one message for each pair of processes. */
    u[1] = 7;
    move.plan = plan;
    move.num_arrays = 2;
    move.sources = sources;
    move.destinations = destinations;
    succeed(datamover_mover_create_set(MPI_COMM_WORLD, &move, 1, 1, NULL, &mover));
    succeed(datamover_mover_run(mover));
    expect(w[3] == 7 && x[3] == 7, "both arrays");
    succeed(datamover_mover_free(&mover));
    give_up(plan, from, to);
    succeed(datamover_plan_free(&plan));
    succeed(datamover_array_free(&from));
    succeed(datamover_array_free(&to));
    succeed(datamover_array_free(&to_w));
    succeed(datamover_array_free(&to_x));
}

/* A part of one layout goes to a part of another; a thread moves it. */
static void a_section(const datamover_layout* line) {
    const int64_t total = (int64_t)size * EACH, lo = 1, hi = total - 1, at = 0, end = total - 2;
    datamover_layout* cyclic;
    datamover_plan* plan;
    datamover_array *source, *destination;
    datamover_mover* mover;
    int64_t outgoing;
    int has_messages, code;

    succeed(datamover_layout_create_block_cyclic(1, &total, "(cyclic)", size, NULL, &cyclic));
    succeed(datamover_redistribute_section(line, &lo, &hi, cyclic, &at, &end, NULL, &plan));
    succeed(datamover_plan_outgoing(plan, rank, NULL, NULL, 0, &outgoing));
    expect(outgoing >= 1, "everybody has a part of it");
    succeed(
        datamover_array_create(MPI_COMM_WORLD, line, DATAMOVER_FLOAT64, 8, 0, NULL, NULL, &source));
    succeed(datamover_array_create(MPI_COMM_WORLD, cyclic, DATAMOVER_FLOAT64, 8, 0, NULL, NULL,
                                   &destination));
    succeed(datamover_mover_create(MPI_COMM_WORLD, plan, source, destination, NULL, &mover));
    succeed(datamover_progress_start(&has_messages)); /* 0: on a node alone */
    succeed(datamover_mover_run(mover));
    succeed(datamover_progress_stop());
    succeed(datamover_mover_free(&mover));

    /* A step of the program itself that must succeed on all processes before any continues. */
    code = datamover_agree(MPI_COMM_WORLD, rank == 0 ? datamover_error_set(DATAMOVER_IO, "no disk")
                                                     : DATAMOVER_SUCCESS);
    expect(code == DATAMOVER_IO, "all know of what process 0 lacks");
    succeed(datamover_plan_free(&plan));
    succeed(datamover_array_free(&source));
    succeed(datamover_array_free(&destination));
    succeed(datamover_layout_free(&cyclic));
}

/* Memory in a shared window of the program, which other processes of the node can access. */
static void in_a_window(const datamover_layout* line) {
    datamover_plan* plan = to_the_next(line);
    datamover_window_memory* known;
    datamover_array *from, *to;
    datamover_mover* mover;
    MPI_Comm node;
    MPI_Win window;
    double *u, v[EACH] = {0};

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Win_allocate_shared(sizeof v, sizeof(double), MPI_INFO_NULL, node, &u, &window);
    succeed(datamover_in_window(window, u, sizeof v, &known));
    u[0] = rank;
    from = array_in(line, u), to = array_in(line, v);
    succeed(datamover_mover_create(MPI_COMM_WORLD, plan, from, to, NULL, &mover));
    succeed(datamover_mover_run(mover));
    expect(v[2] == (rank + size - 1) % size, "from the process before");
    succeed(datamover_mover_free(&mover));
    succeed(datamover_array_free(&from));
    succeed(datamover_array_free(&to));
    succeed(datamover_window_memory_free(&known));
    succeed(datamover_plan_free(&plan));
    MPI_Win_free(&window);
    MPI_Comm_free(&node);
}

int main(int argc, char** argv) {
    int64_t lo = 0, hi, grid;
    datamover_layout* line;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    hi = (int64_t)size * EACH, grid = size;
    succeed(datamover_layout_create_uniform(1, &lo, &hi, &grid, size, &line));
    two_in_one(line);
    ways_to_move(line);
    a_section(line);
    in_a_window(line);
    succeed(datamover_layout_free(&line));
    if (rank == 0) puts("plans: as said");
    MPI_Finalize();
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Particles in C: sends each to the process that owns its position or key. */
#include <datamover/distribute.h>
#include <stdlib.h>

#include "checked.h"

enum { PARTICLES = 100 };

typedef struct particle {
    double at;
    int64_t id;
    int target;
} particle;

static int rank, size;

/* To the process that owns the part of [0, 1) with the particle; values are sent back. */
static void by_position(const particle* particles) {
    double limits[64], charge[PARTICLES];
    int64_t given, received, i, ranks[PARTICLES];
    datamover_target_map* map;
    datamover_migration* there;
    const datamover_keys keys = {PARTICLES, 0, &particles[0].at, DATAMOVER_FLOAT64,
                                 sizeof *particles};
    const datamover_column column = {particles, PARTICLES, sizeof *particles, 0, DATAMOVER_OPAQUE};
    datamover_room arrive;
    particle* arrived;
    int done = 0;

    for (i = 1; i < size && i < 64; ++i) limits[i - 1] = (double)i / size;
    succeed(datamover_target_map_create_splitters(DATAMOVER_FLOAT64, limits, size, &map));
    succeed(datamover_target_map_ranks(map, &keys, ranks));
    expect(ranks[0] >= 0 && ranks[0] < size, "a rank for each");
    succeed(datamover_migration_create_by_keys(MPI_COMM_WORLD, map, &keys, NULL, &there));
    succeed(datamover_migration_elems(there, &given, &received));
    expect(given == PARTICLES, "all are given");

    arrived = malloc(sizeof *arrived * (size_t)(received + 1));
    arrive.data = arrived, arrive.elems = received;
    succeed(datamover_migration_start(there, 1, &column, &arrive));
    while (!done) succeed(datamover_migration_test(there, &done)); /* and computes in between */
    for (i = 0; i < received; ++i)
        expect((int)(arrived[i].at * size) == rank, "it lies in this process's part");

    {
        double* force = malloc(sizeof(double) * (size_t)(received + 1));
        const datamover_column forces = {force, received, sizeof(double), 0, DATAMOVER_FLOAT64};
        const datamover_room back = {charge, PARTICLES};
        for (i = 0; i < received; ++i) force[i] = 2 * arrived[i].at;
        succeed(datamover_migration_reverse(there, 1, &forces, &back, NULL));
        for (i = 0; i < PARTICLES; ++i)
            expect(charge[i] == 2 * particles[i].at, "each gets its own value back");
        free(force);
    }
    free(arrived);
    succeed(datamover_migration_free(&there));
    succeed(datamover_target_map_free(&map));
}

/* Integer keys: distributed round robin, or in blocks. */
static void by_number(const particle* particles) {
    int64_t ranks[PARTICLES];
    datamover_target_map* map;
    const datamover_keys ids = {PARTICLES, 0, &particles[0].id, DATAMOVER_INT64, sizeof *particles};

    succeed(datamover_target_map_create_modulo(size, &map));
    succeed(datamover_target_map_ranks(map, &ids, ranks));
    expect(ranks[1] == particles[1].id % size, "its remainder");
    succeed(datamover_target_map_free(&map));

    succeed(datamover_target_map_create_block(0, (int64_t)PARTICLES * size, size, &map));
    succeed(datamover_target_map_ranks(map, &ids, ranks));
    expect(ranks[1] == rank, "numbers of this process are in its block");
    succeed(datamover_target_map_free(&map));
}

static int next_process(const void* element, void* context) {
    (void)element;
    return *(const int*)context;
}

/* One call, as in the paper on fine-grained data distribution: the target is a part of the element,
 * or a function returns it. */
static void in_one_call(const particle* particles) {
    particle *sent = malloc(sizeof *sent * PARTICLES), *arrived;
    const int64_t room = (int64_t)PARTICLES * size;
    int64_t received, i;
    int next = (rank + 1) % size;
    MPI_Datatype type;

    MPI_Type_contiguous(sizeof(particle), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    arrived = malloc(sizeof *arrived * (size_t)room);
    for (i = 0; i < PARTICLES; ++i) sent[i] = particles[i], sent[i].target = (int)(i % size);
    succeed(datamover_alltoall_specific_c(sent, PARTICLES, type, arrived, room, type,
                                          (int64_t)offsetof(particle, target), &received,
                                          MPI_COMM_WORLD));
    for (i = 0; i < received; ++i) expect(arrived[i].target == rank, "it named this process");
    succeed(datamover_alltoall_specific_function(sent, PARTICLES, type, arrived, room, type,
                                                 next_process, &next, &received, MPI_COMM_WORLD));
    expect(received == PARTICLES, "all of the process before");
    MPI_Type_free(&type);
    free(sent);
    free(arrived);
}

/* A library on top of this one reports an error of its own to all processes. */
static void with_an_error(const particle* particles) {
    int64_t ranks[PARTICLES], i;
    particle arrived[PARTICLES];
    datamover_targets targets = {PARTICLES, 0, NULL, DATAMOVER_INT64, 0};
    const datamover_column column = {particles, PARTICLES, sizeof *particles, 0, DATAMOVER_OPAQUE};
    const datamover_room arrive = {arrived, PARTICLES};
    datamover_migration* stays;
    int code;

    for (i = 0; i < PARTICLES; ++i) ranks[i] = rank;
    targets.data = ranks;
    succeed(datamover_migration_create(MPI_COMM_WORLD, &targets, NULL, &stays));
    succeed(datamover_migration_move(stays, 1, &column, &arrive));
    expect(arrived[7].id == particles[7].id, "in the order in which they were");
    if (rank == 0)
        code = datamover_migration_join_as_failed(stays, DATAMOVER_IO, "no input");
    else
        code = datamover_migration_move(stays, 1, &column, &arrive);
    expect(code == DATAMOVER_IO, "all know of it");
    if (rank == 0)
        succeed(datamover_migration_start_as_failed(stays, DATAMOVER_IO, "no input"));
    else
        succeed(datamover_migration_start(stays, 1, &column, &arrive));
    expect(datamover_migration_wait(stays, -1) == DATAMOVER_IO, "those that wait, too");
    succeed(datamover_migration_free(&stays));
}

int main(int argc, char** argv) {
    particle particles[PARTICLES];
    int i;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (i = 0; i < PARTICLES; ++i) {
        particles[i].id = (int64_t)rank * PARTICLES + i;
        particles[i].at = (double)(i * 7919 % 1000) / 1024;
        particles[i].target = 0;
    }
    by_position(particles);
    by_number(particles);
    in_one_call(particles);
    with_an_error(particles);
    if (rank == 0) puts("particles: as said");
    MPI_Finalize();
    return 0;
}

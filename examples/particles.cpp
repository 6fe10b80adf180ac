// SPDX-License-Identifier: BSD-3-Clause
// How does a C++ program send particles to the process whose cell they are in, and get something
// back for each? Run: mpiexec -n 4 ./particles
#include <mpi.h>

#include <cstdio>
#include <datamover/datamover.hpp>
#include <random>
#include <vector>

namespace {

using datamover::ElementColumn;

struct Particle {
    double position[3];
    double charge;
};

std::vector<Particle> random_particles(int rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    std::uniform_real_distribution<double> anywhere(0, 1);
    std::vector<Particle> particles(1000);
    for (Particle& p : particles)
        p = {{anywhere(random), anywhere(random), anywhere(random)}, anywhere(random)};
    return particles;
}

/// The unit cube in 8 x 8 x 8 cells; each process has an equal part of them along Hilbert's curve,
/// so that its cells lie together.
datamover::TargetMap by_cells(int nprocs) {
    const datamover::CellBox cube{{0, 0, 0}, {1, 1, 1}, {8, 8, 8}, true};
    return datamover::TargetMap::cells(cube, datamover::CellOrder::hilbert, nprocs);
}

/// Counts what is wrong: a particle on another process than its cell, a value that is not its own.
long particles_to_cells(MPI_Comm comm, int rank, int nprocs) {
    const std::vector<Particle> mine = random_particles(rank);
    const datamover::TargetMap map = by_cells(nprocs);
    const auto keys_of = [](const Particle* particles) {
        return datamover::ElementKeys{particles->position, datamover::ScalarType::float64, 3,
                                      sizeof(Particle)};
    };
    datamover::TargetList targets;
    targets.elems = static_cast<std::int64_t>(mine.size());
    targets.evaluate = [&](std::int64_t first, std::int64_t count, std::int64_t* ranks) {
        map.evaluate(keys_of(mine.data()), first, count, ranks);
    };
    datamover::Distribution to_cells(comm, targets);

    const ElementColumn column{mine.data(), sizeof(Particle)};
    const std::vector<datamover::ElementBuffer> arrived = to_cells.move({&column, 1});
    const auto* particles = reinterpret_cast<const Particle*>(arrived[0].data);
    const std::int64_t received = to_cells.received();
    std::vector<std::int64_t> owner(static_cast<std::size_t>(received));
    if (received > 0) map.evaluate(keys_of(particles), 0, received, owner.data());
    long wrong = 0;
    for (const std::int64_t r : owner) wrong += r != rank;

    // What was computed here goes back to where each particle came from, in its place there.
    std::vector<double> energy, energies(mine.size());
    for (std::int64_t i = 0; i < received; ++i) energy.push_back(2 * particles[i].charge);
    to_cells.reverse({energy.data(), sizeof(double)},
                     {reinterpret_cast<std::byte*>(energies.data()),
                      static_cast<std::int64_t>(energies.size() * sizeof(double))});
    for (std::size_t i = 0; i < mine.size(); ++i) wrong += energies[i] != 2 * mine[i].charge;

    const datamover::DistributionCounters counters = to_cells.counters();
    if (rank == 0)
        std::printf("process 0 kept %lld particles and sent %lld, by \"%s\"\n",
                    static_cast<long long>(counters.elems_kept),
                    static_cast<long long>(counters.elems_sent), counters.method.c_str());
    return wrong;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, nprocs = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    long wrong = particles_to_cells(MPI_COMM_WORLD, rank, nprocs);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) std::printf("%ld values are wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}

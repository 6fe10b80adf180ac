// SPDX-License-Identifier: BSD-3-Clause
// Particles in C++: sends each particle to the process that owns its cell, and returns a value for
// each.
// Run: mpiexec -n 4 ./particles
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <datamover/datamover.hpp>
#include <random>
#include <string>
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
/// so that its cells are close to each other.
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
    datamover::Migration to_cells(comm, targets);

    const ElementColumn column{mine.data(), sizeof(Particle)};
    const std::vector<datamover::ElementBuffer> arrived = to_cells.move({&column, 1});
    const auto* particles = reinterpret_cast<const Particle*>(arrived[0].data);
    const std::int64_t received = to_cells.received();
    std::vector<std::int64_t> owner(static_cast<std::size_t>(received));
    if (received > 0) map.evaluate(keys_of(particles), 0, received, owner.data());
    long wrong = 0;
    for (const std::int64_t r : owner) wrong += r != rank;

    // The computed values are sent back to the process of each particle, in the original order.
    std::vector<double> energy, energies(mine.size());
    for (std::int64_t i = 0; i < received; ++i) energy.push_back(2 * particles[i].charge);
    to_cells.reverse({energy.data(), sizeof(double)},
                     {reinterpret_cast<std::byte*>(energies.data()),
                      static_cast<std::int64_t>(energies.size() * sizeof(double))});
    for (std::size_t i = 0; i < mine.size(); ++i) wrong += energies[i] != 2 * mine[i].charge;

    const datamover::MigrationCounters counters = to_cells.counters();
    if (rank == 0)
        std::printf("process 0 kept %lld particles and sent %lld, by \"%s\"\n",
                    static_cast<long long>(counters.elems_kept),
                    static_cast<long long>(counters.elems_sent), counters.method.c_str());
    return wrong;
}

/// Elements with two targets each, such as contributions to the two ends of an edge, and the sum
/// of the values that are sent back, while the program computes.
long to_both_ends(MPI_Comm comm, int rank, int nprocs) {
    std::vector<std::int32_t> ends;
    std::vector<float> weights;
    for (int i = 0; i < 100; ++i) {
        ends.push_back((rank + i) % nprocs);
        ends.push_back((rank + i + 1) % nprocs);
        weights.push_back(static_cast<float>(i));
    }
    datamover::TargetList targets;
    targets.elems = 100;
    targets.targets_per_elem = 2;
    targets.data = ends.data();
    datamover::Migration to_ends(comm, targets);

    ElementColumn column{weights.data(), sizeof(float)};
    column.type = datamover::ScalarType::float32;
    const std::vector<datamover::ElementBuffer> arrived = to_ends.start({&column, 1});
    while (!to_ends.test()) {
        // Here the program computes.
    }
    std::int64_t sent = 0;
    for (const std::int64_t count : to_ends.send_counts()) sent += count;
    std::int64_t received = 0;
    for (const std::int64_t count : to_ends.receive_counts()) received += count;
    long wrong = sent != 200 || received != to_ends.received() || to_ends.in_flight();

    // Each gets back the sum of both.
    column.data = arrived[0].data;
    std::vector<float> sums(100);
    to_ends.reverse(column,
                    {reinterpret_cast<std::byte*>(sums.data()), 100 * std::int64_t{sizeof(float)}},
                    datamover::Op::add);
    for (std::size_t i = 0; i < sums.size(); ++i) wrong += sums[i] != 2 * weights[i];
    return wrong;
}

/// Sends records to the process of their key's range, in place.
long by_ranges_of_keys(MPI_Comm comm, int rank, int nprocs) {
    struct Record {
        std::int64_t key;
        double value;
    };
    std::mt19937 random(static_cast<unsigned>(rank));
    std::vector<Record> records(1000);
    for (Record& record : records) {
        record.key = std::uniform_int_distribution<std::int64_t>(0, 999)(random);
        record.value = static_cast<double>(-record.key);
    }
    std::vector<std::int64_t> ends;  // of all ranges but the last
    for (int process = 1; process < nprocs; ++process) ends.push_back(1000 * process / nprocs);
    const auto map = datamover::TargetMap::splitters(ends, nprocs);
    std::vector<std::int64_t> ranks(records.size());
    map.evaluate({&records[0].key, datamover::ScalarType::int64, 1, sizeof(Record)}, 0,
                 static_cast<std::int64_t>(records.size()), ranks.data());
    datamover::TargetList targets;
    targets.elems = static_cast<std::int64_t>(records.size());
    targets.data = ranks.data();
    targets.type = datamover::ScalarType::int64;
    targets.stride_bytes = sizeof(std::int64_t);
    datamover::Migration by_key(comm, targets);

    const auto received = static_cast<std::size_t>(by_key.received());
    records.resize(std::max(records.size(), received));
    by_key.move_in_place(records.data(), sizeof(Record), static_cast<std::int64_t>(records.size()));
    records.resize(received);
    long wrong = 0;
    for (const Record& record : records) {
        const auto range = std::upper_bound(ends.begin(), ends.end(), record.key) - ends.begin();
        wrong += range != rank || record.value != static_cast<double>(-record.key);
    }
    return wrong;
}

/// Cells of unequal work: a program's own owners along the curve, equal in work.
datamover::TargetMap by_work(int nprocs) {
    datamover::CellBox square;
    square.lo = {0, 0};
    square.hi = {1, 1};
    square.cells = {16, 16};
    std::vector<std::int64_t> owners(256);
    double done = 0;
    const auto work = [](std::size_t cell) { return cell < 64 ? 5.0 : 1.0; };
    const double all = 64 * 5.0 + 192;
    for (std::size_t cell = 0; cell < owners.size(); ++cell) {
        owners[cell] = static_cast<std::int64_t>(done / all * nprocs);
        done += work(cell);
    }
    return datamover::TargetMap::cells(square, datamover::CellOrder::morton, nprocs, owners);
}

/// A curve's cells, for a program that cuts it itself.
long along_a_curve() {
    const std::vector<std::int64_t> cells{4, 4};
    const std::vector<std::int64_t> positions =
        datamover::cell_positions(cells, datamover::cell_order_from_name("morton"));
    return positions[5] != 3;  // cell (1, 1) ends the first quarter
}

/// With a chosen method, in any order: values must then name the move whose order they follow.
long in_any_order(MPI_Comm comm, int rank, int nprocs) {
    std::vector<std::int32_t> next(10, (rank + 1) % nprocs);
    datamover::TargetList targets;
    targets.elems = 10;
    targets.data = next.data();
    datamover::Migration to_next(comm, targets);
    const std::vector<double> mine(10, rank);
    const ElementColumn column{mine.data(), sizeof(double)};
    datamover::CarryOptions how;
    how.method = "sendrecv";
    how.stable = false;
    const auto arrived = to_next.move({&column, 1}, how);
    std::vector<double> back(10);
    to_next.reverse({arrived[0].data, sizeof(double)},
                    {reinterpret_cast<std::byte*>(back.data()), 10 * std::int64_t{sizeof(double)}},
                    datamover::Op::replace, datamover::ArrivedBy::move);
    return back != mine;
}

/// The owner of the cell of a point, and the fastest method for sending elements there.
long by_work_and_method(MPI_Comm comm, int nprocs) {
    const double corner[] = {0.99, 0.99};
    std::int64_t last = -1;
    by_work(nprocs).evaluate({corner, datamover::ScalarType::float64, 2, 16}, 0, 1, &last);
    datamover::TargetList nothing;
    datamover::MigrationOptions options;
    options.carry.method = "auto";
    const datamover::Migration any(comm, nothing, options);
    const std::string chosen = any.chosen_method(sizeof(Particle));
    long wrong = last != nprocs - 1;
    for (const datamover::MethodTime& time : any.measured_methods())
        wrong += time.method.empty() || time.seconds < 0;
    return wrong + chosen.empty();
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, nprocs = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    long wrong = particles_to_cells(MPI_COMM_WORLD, rank, nprocs) +
                 to_both_ends(MPI_COMM_WORLD, rank, nprocs) +
                 by_ranges_of_keys(MPI_COMM_WORLD, rank, nprocs) +
                 by_work_and_method(MPI_COMM_WORLD, nprocs) + along_a_curve() +
                 in_any_order(MPI_COMM_WORLD, rank, nprocs);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) std::printf("%ld values are wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}

// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of the halo exchange of tiny blocks, compared with hand-written MPI calls.
// Arguments: seconds per case, processes per simulated node (0: none), then per case a name, the
// points along an edge and the blocks per process in the three dimensions.
#include <mpi.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "datamover/floor_plan.hpp"
#include "datamover/mover.hpp"
#include "latency_languages.hpp"
#include "latency_messages.hpp"
#include "latency_plan.hpp"
#include "process_contest.hpp"

namespace {

using bench::BlockGrid;
using bench::Box;
using bench::Face;
using bench::Index;
using bench::LocalBlocks;
using bench::ProcessContest;
using datamover::Array;
using datamover::FloorPlan;
using datamover::Mover;
using datamover::Point;
using datamover::Region;

/// A value that tells a point of a block from all others.
double value_of(std::int64_t block, std::int64_t i, std::int64_t j, std::int64_t k) {
    return static_cast<double>(((block * 64 + i) * 64 + j) * 64 + k);
}

template <class Visit>
void for_each_stored(const BlockGrid& grid, Visit&& visit) {
    const std::int64_t e = grid.stored_edge();
    for (std::int64_t i = 0; i < e; ++i)
        for (std::int64_t j = 0; j < e; ++j)
            for (std::int64_t k = 0; k < e; ++k) visit(i, j, k, (i * e + j) * e + k);
}

/// Interiors get their values, ghosts -1.
template <class BlockOf>
void fill(const BlockGrid& grid, int rank, BlockOf&& block_of) {
    const auto inner = [&](std::int64_t x) { return x >= 1 && x <= grid.edge; };
    for (std::int64_t b = 0; b < grid.num_blocks(); ++b) {
        if (grid.owner(b) != rank) continue;
        double* data = block_of(b);
        for_each_stored(grid, [&](auto i, auto j, auto k, auto at) {
            data[at] = inner(i) && inner(j) && inner(k) ? value_of(b, i, j, k) : -1;
        });
    }
}

template <class BlockOf>
bool faces_right(const BlockGrid& grid, int rank, BlockOf&& block_of) {
    const std::int64_t e = grid.stored_edge();
    for (const Face& f : grid.faces()) {
        if (f.destination_rank != rank) continue;
        const double* data = block_of(f.destination_block);
        const Index &s = f.source.begin, &d = f.destination.begin, &n = f.source.extent;
        for (std::int64_t i = 0; i < n[0]; ++i)
            for (std::int64_t j = 0; j < n[1]; ++j)
                for (std::int64_t k = 0; k < n[2]; ++k)
                    if (data[((d[0] + i) * e + d[1] + j) * e + d[2] + k] !=
                        value_of(f.source_block, s[0] + i, s[1] + j, s[2] + k))
                        return false;
    }
    return true;
}

template <class BlockOf>
ProcessContest::Check check_of(const BlockGrid& grid, int rank, BlockOf block_of) {
    return {[=] { fill(grid, rank, block_of); }, [=] { return faces_right(grid, rank, block_of); }};
}

/// What a program does with faces between two exchanges, at the least: reads its ghosts and writes
/// its own boundary anew (the values stay, so that the check holds).
template <class BlockOf>
void use_faces(const std::vector<Face>& faces, std::int64_t e, int rank, BlockOf&& block_of) {
    double sum = 0;
    for (const Face& f : faces) {
        const auto each = [&](std::int64_t block, const Box& box, auto&& visit) {
            double* data = block_of(block);
            for (std::int64_t i = 0; i < box.extent[0]; ++i)
                for (std::int64_t j = 0; j < box.extent[1]; ++j)
                    for (std::int64_t k = 0; k < box.extent[2]; ++k)
                        visit(data[((box.begin[0] + i) * e + box.begin[1] + j) * e + box.begin[2] +
                                   k]);
        };
        if (f.destination_rank == rank)
            each(f.destination_block, f.destination, [&](const double& ghost) { sum += ghost; });
        if (f.source_rank == rank)
            each(f.source_block, f.source, [](volatile double& inner) { inner = inner; });
    }
    volatile double kept = sum;
    static_cast<void>(kept);
}

/// How a phase makes a contender's work of its exchange.
using Wrap = std::function<std::function<void()>(std::function<void()>)>;

template <class BlockOf>
Wrap wrap_of(bool with_use, const BlockGrid& grid, int rank, BlockOf block_of) {
    if (!with_use) return [](std::function<void()> exchange) { return exchange; };
    return [=](std::function<void()> exchange) -> std::function<void()> {
        return [=, faces = grid.faces(), e = grid.stored_edge()] {
            exchange();
            use_faces(faces, e, rank, block_of);
        };
    };
}

void add_movers(ProcessContest& contest, MPI_Comm comm, const BlockGrid& grid, bool with_use,
                const std::vector<std::pair<std::string, std::string>>& contenders,
                bool with_languages = false) {
    int rank = 0, size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const FloorPlan blocks = bench::floor_plan_of(grid, size);
    const auto plan = datamover::halo(blocks, Point::filled(3, 1), Point::filled(3, 1),
                                      blocks.bounding_box(), {}, false);
    datamover::ArrayOptions options;
    options.ghost_lower = options.ghost_upper = Point::filled(3, 1);
    const Array array(comm, blocks, sizeof(double), options);
    const std::int64_t e = grid.stored_edge();
    const auto block_of = [=](std::int64_t b) {
        return reinterpret_cast<double*>(array.origin(b)) - (e * e + e + 1);
    };
    const Wrap wrap = wrap_of(with_use, grid, rank, block_of);
    for (const auto& [name, transport] : contenders)
        contest.add_made(
            name,
            [&]() -> std::function<void()> {
                Mover mover(comm, plan, array, array, {datamover::Op::replace, transport});
                return wrap([mover]() mutable { mover(); });
            },
            check_of(grid, rank, block_of));
    if (!with_languages) return;
    bench::OwnBlocks own;
    for (std::int64_t b = 0; b < grid.num_blocks(); ++b)
        if (grid.owner(b) == rank) own.numbers.push_back(b), own.stored.push_back(block_of(b));
    for (const auto& [name, make] : {std::pair("datamover:c", &bench::halo_from_c),
                                     std::pair("datamover:fortran", &bench::halo_from_fortran)})
        contest.add_made(
            name, [&, make = make] { return wrap(make(comm, grid, own)); },
            check_of(grid, rank, block_of));
}

/// The same processes, but divided into nodes of `node_size` as far as the library is concerned.
MPI_Comm with_pretend_nodes(int node_size) {
    setenv("DATAMOVER_NODE_SIZE", std::to_string(node_size).c_str(), 1);
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const Array first(comm,
                      FloorPlan::uniform(Region::from_shape({1}), {1},
                                         [&] {
                                             int size = 1;
                                             MPI_Comm_size(comm, &size);
                                             return size;
                                         }()),
                      1);  // the nodes are divided when a communicator is first used
    unsetenv("DATAMOVER_NODE_SIZE");
    return comm;
}

/// The phase "exchange" is start and wait alone; in "exchange_use" the faces are used in between.
void run_phase(const std::string& name, bool with_use, const BlockGrid& grid, double seconds,
               MPI_Comm mixed) {
    const MPI_Comm comm = MPI_COMM_WORLD;
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    const std::int64_t bytes = grid.num_blocks() * 6 * grid.edge * grid.edge * 8;
    ProcessContest contest(comm, name, with_use ? "exchange_use" : "exchange", bytes, seconds);
    add_movers(contest, comm, grid, with_use,
               {{"datamover:shared", "shared"},
                {"datamover:staged", "staged"},
                {"datamover:p2p", "p2p"},
                {"datamover:auto", "auto"}},
               true);
    if (mixed != MPI_COMM_NULL)
        add_movers(contest, mixed, grid, with_use, {{"datamover:mixed", "auto"}});

    LocalBlocks blocks(grid, rank);
    const auto block_of = [&](std::int64_t b) { return blocks.block(b); };
    const Wrap wrap = wrap_of(with_use, grid, rank, block_of);
    using Make = bench::Exchange (*)(MPI_Comm, const bench::Faces&, LocalBlocks&);
    const std::pair<const char*, Make> by_hand[] = {
        {"persistent:faces", bench::persistent_faces},
        {"persistent:datatypes", bench::persistent_datatypes},
        {"persistent:merged", bench::persistent_merged},
        {"persistent:merged_datatypes", bench::persistent_merged_datatypes},
        {"isend:merged", bench::isend_merged},
    };
    const bench::Faces faces = grid.faces();
    for (const auto& [contender, make] : by_hand)
        contest.add(contender, wrap(make(comm, faces, blocks)), check_of(grid, rank, block_of));
    // What no exchange can save.
    if (with_use) contest.add("use:alone", wrap([] {}), {[] {}, [] { return true; }});
    contest.run();
}

BlockGrid grid_of(char** numbers) {
    int size = 1, dims[3] = {0, 0, 0};
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 3, dims);
    BlockGrid grid;
    grid.edge = std::atoll(numbers[0]);
    for (int d = 0; d < 3; ++d) {
        grid.processes[static_cast<std::size_t>(d)] = dims[d];
        grid.blocks_per_process[static_cast<std::size_t>(d)] = std::atoll(numbers[d + 1]);
    }
    return grid;
}

}  // namespace

int main(int argc, char** argv) {
    return bench::run_program(argc, argv, "latency", [&] {
        const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
        const int node_size = argc > 2 ? std::atoi(argv[2]) : 0;
        MPI_Comm mixed = node_size > 0 ? with_pretend_nodes(node_size) : MPI_COMM_NULL;
        for (int a = 3; a + 4 < argc; a += 5)
            for (const bool with_use : {false, true})
                run_phase(argv[a], with_use, grid_of(argv + a + 1), seconds / 2, mixed);
        if (mixed != MPI_COMM_NULL) MPI_Comm_free(&mixed);
    });
}

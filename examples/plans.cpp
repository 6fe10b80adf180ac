// SPDX-License-Identifier: BSD-3-Clause
// Plans in C++: reading, editing, reversing and saving them.
// Run: mpiexec -n 4 ./plans
#include <mpi.h>

#include <cstdio>
#include <datamover/datamover.hpp>
#include <numeric>
#include <string>
#include <variant>

#include "checked.hpp"

namespace {

using datamover::Array;
using datamover::BlockCyclic;
using datamover::FloorPlan;
using datamover::MotionPlan;
using datamover::Mover;
using datamover::Point;
using datamover::Region;
using datamover::SectionCopy;

constexpr std::int64_t edge = 32;

FloorPlan boxes(int nprocs) {
    return FloorPlan::uniform(Region::from_shape({edge, edge}), {4, 4}, nprocs);
}

/// Ghosts of a periodic domain.
MotionPlan ghosts(const FloorPlan& boxes) {
    const Point one{1, 1};
    return halo(boxes, one, one, boxes.bounding_box());
}

/// Reads which section is copied where, and makes a plan of some of the sections.
void sections(int rank, int nprocs) {
    const FloorPlan layout = boxes(nprocs);
    const MotionPlan all = ghosts(layout);
    std::int64_t points = 0;
    all.for_each_section([&](const SectionCopy& s) { points += s.destination_region.size(); }, -1,
                         rank);
    const auto mine = static_cast<std::int64_t>(layout.blocks_of(rank).size());
    expect(points == mine * (10 * 10 - 8 * 8), "a ring around each of my boxes of 8 x 8");

    // Copies within a process are left to the program.
    const MotionPlan between = all.filter([&](const SectionCopy& s) {
        return layout.owner(s.source_block) != layout.owner(s.destination_block);
    });
    for (const datamover::PeerPart& peer : between.outgoing(rank))
        expect(peer.rank != rank && peer.part.size() > 0, "only to others");

    // Terms are read and changed one by one.
    MotionPlan by_hand(layout, layout);
    by_hand.add_section(0, layout.region(0), 1, layout.region(1));
    by_hand.add_section(0, layout.region(0), 2, layout.region(2));
    SectionCopy copy = std::get<SectionCopy>(by_hand[1]);
    copy.destination_block = 3;
    copy.destination_region = layout.region(3);
    by_hand.replace(1, copy);
    by_hand.erase(0);
    expect(by_hand.size() == 1 && by_hand.merged(all).size() == 1 + all.size(), "both");
}

/// Finite elements add the values computed on ghosts to the points of the owners: the reverse of
/// the plan that fills ghosts.
void sums_of_ghosts(MPI_Comm comm, int rank, int nprocs) {
    const FloorPlan layout = boxes(nprocs);
    const Point one{1, 1};
    const Array u(comm, layout, sizeof(double),
                  {.type = datamover::ScalarType::float64, .ghost_lower = one, .ghost_upper = one});
    for (const std::int64_t block : layout.blocks_of(rank)) {
        const auto grid = u.grid<double>(block);
        grid.valid().for_each([&](const Point& at) { grid[at] = 1; });
    }
    Mover sum(comm, ghosts(layout).adjoint(), u, u, {.op = datamover::Op::add});
    sum.start();
    while (!sum.test()) {
        // Here the program computes points that are not ghosts of any other process.
    }
    for (const std::int64_t block : layout.blocks_of(rank)) {
        const auto grid = u.grid<double>(block);
        expect(grid(0, 0) == 4 && grid(0, 3) == 2 && grid(3, 3) == 1, "corner, edge, inside");
    }
    sum.close();  // frees its buffers; u stays
}

/// From one level of a solver to the next: the coarse points of each fine box, and one point more.
void to_the_fine_level(MPI_Comm comm, int rank, int nprocs) {
    const FloorPlan fine = boxes(nprocs);
    const Region half = Region::from_shape({edge / 2, edge / 2});
    const FloorPlan coarse = FloorPlan::bisected(half, std::vector<double>(nprocs, 1.0));
    datamover::LevelOptions options;
    options.lower = options.upper = {1, 1};
    const MotionPlan up = prolongation(coarse, fine, {2, 2}, options);
    const Array u(comm, coarse, sizeof(int)), beneath(comm, up.destination(), sizeof(int));
    for (const std::int64_t block : coarse.blocks_of(rank))
        u.grid<int>(block).valid().for_each([&](const Point& at) {
            const Point point = coarse.region(block).lo() + at;
            u.grid<int>(block)[at] = static_cast<int>(point[0] * 100 + point[1]);
        });
    Mover(comm, up, u, beneath)();
    const FloorPlan& grown = *beneath.layout().floor_plan();
    for (const std::int64_t block : fine.blocks_of(rank))
        grown.region(block).intersected(half).for_each([&](const Point& point) {
            const int element = beneath.grid<int>(block)[point - grown.region(block).lo()];
            expect(element == point[0] * 100 + point[1], "the coarse point");
        });
}

/// Two plans, one after the other, composed to one: nothing in between is stored.
void in_one_step(int nprocs) {
    const Point shape{edge, edge};
    const BlockCyclic rows(shape, "(block, *)", nprocs), columns(shape, "(*, block)", nprocs);
    const FloorPlan tiles = FloorPlan::tiles(Region::from_shape(shape), {8, 8}, nprocs);
    const MotionPlan direct =
        redistribute(rows, tiles).composed(redistribute(tiles, columns, {1, 0}));
    expect(summarize_traffic(direct).sent_elems ==
               summarize_traffic(redistribute(rows, columns, {1, 0})).sent_elems,
           "as if it were transposed from rows to columns");
    expect(direct.reversed().source() == direct.destination(), "and the way back");
}

/// The cost of a plan, without arrays, for any number of processes.
void costs() {
    const BlockCyclic rows({4096, 4096}, "(block, *)", 1000);
    const BlockCyclic tiles({4096, 4096}, "(cyclic(64), cyclic(64))", 1000);
    const MotionPlan plan = redistribute(rows, tiles);
    const datamover::TrafficSummary all = summarize_traffic(plan, 50);  // 50 processes to a node
    expect(all.shared_elems + all.p2p_elems ==
               std::reduce(all.sent_elems.begin(), all.sent_elems.end()),
           "within nodes, and between them");
    for (const datamover::MessageSize& size : all.sizes)
        expect(size.messages > 0 && size.elems <= all.largest_elems, "so many of each size");
    const datamover::RankExplanation seven = explain_rank(plan, 7, sizeof(double));
    std::printf(
        "process 7 sends %lld messages and receives %lld; the first is kept as %s in %lld"
        " bytes\n",
        static_cast<long long>(seven.outgoing.size()),
        static_cast<long long>(seven.incoming.size()), encoding_name(seven.outgoing.encoding[0]),
        static_cast<long long>(seven.outgoing.relation_bytes[0]));
    // The traffic matrix: how much is sent between 10 groups of processes.
    const datamover::TrafficMatrix groups = traffic_matrix(plan, 10);
    expect(groups.groups() == 10 &&
               std::reduce(groups.elems.begin(), groups.elems.end()) == std::int64_t{4096} * 4096,
           "every element");
    // Every pair of a smaller plan.
    const datamover::PairTable pairs = explain_pairs(
        redistribute(BlockCyclic({8, 8}, "(block, *)", 2), BlockCyclic({8, 8}, "(*, block)", 2)),
        sizeof(double));
    expect(pairs.size() == 4 && pairs.elems[1] == 16, "from 0 to 1");
}

/// Saves a plan that took long to make, for the next run.
void kept_in_a_file(int rank, int nprocs) {
    if (rank != 0) return;
    const MotionPlan plan = ghosts(boxes(nprocs));
    const std::string path = "ghosts.plan";
    plan.save(path);
    expect(MotionPlan::load(path) == plan, "the same plan");
    std::remove(path.c_str());
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, nprocs = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    sections(rank, nprocs);
    sums_of_ghosts(MPI_COMM_WORLD, rank, nprocs);
    to_the_fine_level(MPI_COMM_WORLD, rank, nprocs);
    in_one_step(nprocs);
    if (rank == 0) costs();
    kept_in_a_file(rank, nprocs);
    MPI_Finalize();
    return 0;
}

// SPDX-License-Identifier: BSD-3-Clause
// Ghosts and coarse-fine exchange of a C++ solver on two levels of boxes.
// Run: mpiexec -n 4 ./grids
#include <mpi.h>

#include <cstdio>
#include <datamover/datamover.hpp>
#include <vector>

namespace {

using datamover::Array;
using datamover::FloorPlan;
using datamover::MotionPlan;
using datamover::Mover;
using datamover::Point;
using datamover::Region;

constexpr std::int64_t fine_edge = 32, coarse_edge = 16;

/// The value of a point; the grid is periodic.
double value_at(const Point& point, std::int64_t edge) {
    const auto inside = [edge](std::int64_t x) { return (x + edge) % edge; };
    return static_cast<double>(inside(point[0]) * edge + inside(point[1]));
}

/// Visits the points of this process's boxes, grown by a width on every side: visit(point,
/// element).
template <class Visit>
void for_each_point(const Array& array, std::int64_t grown, Visit visit) {
    const FloorPlan& boxes = *array.layout().boxes();
    for (const std::int64_t block : boxes.blocks_of(array.rank())) {
        const Region box = boxes.region(block);
        const auto grid = array.grid<double>(block);
        Region({-grown, -grown}, box.shape() + Point::filled(2, grown))
            .for_each([&](const Point& local) { visit(box.lo() + local, grid[local]); });
    }
}

/// Visits the points around one of this process's boxes: visit(point, element).
template <class Visit>
void for_each_ghost(const Array& array, std::int64_t block, Visit visit) {
    const Region box = array.layout().boxes()->region(block);
    const auto grid = array.grid<double>(block);
    const Region inside({0, 0}, box.shape());
    Region({-1, -1}, box.shape() + Point::filled(2, 1)).for_each([&](const Point& local) {
        if (!inside.contains(local)) visit(box.lo() + local, grid[local]);
    });
}

long count_wrong(const Array& array, std::int64_t grown, std::int64_t edge) {
    long wrong = 0;
    for_each_point(array, grown, [&](const Point& point, double& element) {
        wrong += element != value_at(point, edge);
    });
    return wrong;
}

void fill(const Array& array, std::int64_t edge) {
    for_each_point(array, 0,
                   [&](const Point& point, double& element) { element = value_at(point, edge); });
}

Array field(MPI_Comm comm, const FloorPlan& boxes, std::int64_t ghosts) {
    const Point wide = Point::filled(2, ghosts);
    return {comm, boxes, sizeof(double), {.ghost_lower = wide, .ghost_upper = wide}};
}

/// The ghosts of two fields in one message for each pair of processes, while the program computes.
long ghosts_of_two_fields(MPI_Comm comm, const FloorPlan& boxes, const Region& grid) {
    const Point one = Point::filled(2, 1);
    const Array u = field(comm, boxes, 1), v = field(comm, boxes, 1);
    fill(u, fine_edge);
    fill(v, fine_edge);
    const MotionPlan ghosts = halo(boxes, one, one, grid);
    const datamover::PlannedArrays both[] = {{ghosts, {u.part(), v.part()}, {u.part(), v.part()}}};
    Mover exchange(comm, both);
    exchange.start();
    // Here points are computed that need no ghosts.
    exchange.wait();
    return count_wrong(u, 1, fine_edge) + count_wrong(v, 1, fine_edge);
}

/// The same, one axis after the other: the second axis forwards the corners, in fewer messages.
long ghosts_axis_by_axis(MPI_Comm comm, const FloorPlan& boxes, const Region& grid) {
    const Point one = Point::filled(2, 1);
    const Array u = field(comm, boxes, 1);
    fill(u, fine_edge);
    std::vector<datamover::PlannedArrays> phases;
    for (const int axis : {0, 1})
        phases.push_back({axis_halo(boxes, one, one, axis, grid), {u.part()}, {u.part()}});
    Mover::in_phases(comm, phases)();
    return count_wrong(u, 1, fine_edge);
}

/// Ghosts of a pipe, periodic along the first dimension only: the red points of the faces, which
/// are all that a five-point stencil reads before it computes the black points.
long red_ghosts_of_a_pipe(MPI_Comm comm, const FloorPlan& boxes, const Region& grid) {
    const Point one = Point::filled(2, 1);
    const Array u = field(comm, boxes, 1);
    for_each_point(u, 1, [](const Point&, double& element) { element = -1; });
    fill(u, fine_edge);
    const std::vector<bool> wraps = {true, false};
    const bool corners = false;
    const std::int64_t colors = 2, red = 0;
    const MotionPlan ghosts = halo(boxes, one, one, grid, wraps, corners, colors, red);
    Mover(comm, ghosts, u, u)();

    long wrong = 0;
    for (const std::int64_t block : boxes.blocks_of(u.rank())) {
        const Region box = boxes.region(block);
        for_each_ghost(u, block, [&](const Point& point, double element) {
            const bool is_corner = !(box.lo()[0] <= point[0] && point[0] < box.hi()[0]) &&
                                   !(box.lo()[1] <= point[1] && point[1] < box.hi()[1]);
            const bool is_inside = 0 <= point[1] && point[1] < fine_edge;
            const bool is_red = (point[0] + point[1] + fine_edge) % 2 == 0;
            const bool is_filled = !is_corner && is_inside && is_red;
            wrong += element != (is_filled ? value_at(point, fine_edge) : -1);
        });
    }
    return wrong;
}

/// Every box of the coarse level gets the fine points that it covers, whichever process owns them.
long to_the_coarse_level(MPI_Comm comm, int rank, const FloorPlan& fine, const FloorPlan& coarse) {
    const Array u = field(comm, fine, 0);
    fill(u, fine_edge);
    const MotionPlan down = restriction(fine, coarse, {2, 2});
    const Array above(comm, down.destination(), sizeof(double));
    Mover mover(comm, down, u, above);
    mover();

    // A plan can report what it moves without moving it, and can be stored.
    const datamover::TrafficSummary traffic = summarize_traffic(down);
    const bool is_same = MotionPlan::from_bytes(down.to_bytes()) == down;
    if (rank == 0)
        std::printf("process 0 sends %lld elements in %lld messages; the largest of all has %lld\n",
                    static_cast<long long>(traffic.sent_elems[0]),
                    static_cast<long long>(mover.counters().messages_sent),
                    static_cast<long long>(traffic.largest_elems));
    return count_wrong(above, 0, fine_edge) + !is_same;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, nprocs = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    const Region grid({0, 0}, {fine_edge, fine_edge});
    const FloorPlan fine = FloorPlan::uniform(grid, {4, 4}, nprocs);
    // Half of the processes have the coarse level.
    const FloorPlan on_half =
        FloorPlan::uniform(Region({0, 0}, {coarse_edge, coarse_edge}), {2, 2}, (nprocs + 1) / 2);
    std::vector<Region> regions;
    datamover::Map owners;
    for (std::int64_t block = 0; block < on_half.num_blocks(); ++block) {
        regions.push_back(on_half.region(block));
        owners.push_back(on_half.owner(block));
    }
    const FloorPlan coarse(regions, owners, nprocs);

    long wrong = ghosts_of_two_fields(MPI_COMM_WORLD, fine, grid) +
                 ghosts_axis_by_axis(MPI_COMM_WORLD, fine, grid) +
                 red_ghosts_of_a_pipe(MPI_COMM_WORLD, fine, grid) +
                 to_the_coarse_level(MPI_COMM_WORLD, rank, fine, coarse);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) std::printf("%ld points are wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}

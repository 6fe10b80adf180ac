// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a plan for each pair of processes. The program moves arrays by its own loops and
// messages, and compares the result with the library's mover.
// Run: mpiexec -n 4 ./pairs
#include <mpi.h>

#include <cstdio>
#include <datamover/datamover.hpp>
#include <numeric>
#include <variant>
#include <vector>

#include "checked.hpp"

namespace {

using datamover::BlockCyclic;
using datamover::FloorPlan;
using datamover::Layout;
using datamover::MotionPlan;
using datamover::PeerPart;
using datamover::Point;
using datamover::Region;
using datamover::Side;
using datamover::XArray;

/// One element of a message: in which local blocks it lies, and where there.
struct Element {
    datamover::BlockPair blocks;
    datamover::PerSide<Point> at;
};

/// The elements of a part, in the order of the message.
std::vector<Element> elements_of(const datamover::PairPart& part) {
    std::vector<Element> elements;
    part.for_each_element(
        [&](const datamover::BlockPair& blocks, const datamover::PerSide<Point>& at) {
            elements.push_back({blocks, at});
        });
    expect(static_cast<std::int64_t>(elements.size()) == part.size(), "all of it");
    return elements;
}

/// The axes of a part's nests: boxes, such as ghosts, that have the same position in their blocks
/// share a shape.
void shapes(const MotionPlan& ghosts) {
    for (const PeerPart& peer : ghosts.incoming(0))
        for (const datamover::PartEntry& entry : peer.part.entries()) {
            expect(entry.is_nest() && entry.content < peer.part.num_shapes(), "a box");
            std::int64_t elems = 1;
            for (const datamover::PartAxis& axis : peer.part.axes(entry)) elems *= axis.length;
            expect(elems == peer.part.elems(entry), "a product of its axes");
        }
}

/// The counts of a collective operation, and where each process's part begins.
struct Counts {
    explicit Counts(int nprocs) : of(static_cast<std::size_t>(nprocs)), begin(of.size()) {}
    int finish() {
        std::exclusive_scan(of.begin(), of.end(), begin.begin(), 0);
        return std::reduce(of.begin(), of.end());
    }
    std::vector<int> of, begin;
};

/// Moves as a plan says, by one collective operation. Both sides find the same order by themselves.
/// Returns how many elements left here and came here.
datamover::PerSide<std::size_t> move_by_hand(MPI_Comm comm, const MotionPlan& plan,
                                             const XArray& from, const XArray& to) {
    int nprocs = 0;
    MPI_Comm_size(comm, &nprocs);
    Counts send(nprocs), receive(nprocs);
    const std::vector<PeerPart> outgoing = plan.outgoing(from.rank()),
                                incoming = plan.incoming(to.rank());
    std::vector<double> packed;
    for (const PeerPart& peer : outgoing) {  // in ascending order of ranks
        send.of[static_cast<std::size_t>(peer.rank)] = static_cast<int>(peer.part.size());
        for (const Element& e : elements_of(peer.part))
            packed.push_back(from.grid<double>(e.blocks.source_block)[e.at.source]);
    }
    for (const PeerPart& peer : incoming)
        receive.of[static_cast<std::size_t>(peer.rank)] = static_cast<int>(peer.part.size());
    send.finish();
    std::vector<double> come(static_cast<std::size_t>(receive.finish()));
    MPI_Alltoallv(packed.data(), send.of.data(), send.begin.data(), MPI_DOUBLE, come.data(),
                  receive.of.data(), receive.begin.data(), MPI_DOUBLE, comm);
    std::size_t n = 0;
    for (const PeerPart& peer : incoming)
        for (const Element& e : elements_of(peer.part))
            to.grid<double>(e.blocks.destination_block)[e.at.destination] = come[n++];
    return {packed.size(), come.size()};
}

/// The numbers of this process's elements, ghosts too; all different within a process.
void fill(const XArray& array, double begin) {
    for (const std::int64_t block : array.layout().blocks_of(array.rank())) {
        const datamover::GridView<double> grid = array.grid<double>(block);
        grid.valid().for_each([&](const Point& at) { grid[at] = begin++; });
    }
}

void expect_equal(const XArray& a, const XArray& b) {
    for (const std::int64_t block : a.layout().blocks_of(a.rank())) {
        const datamover::GridView<const double> left = a.grid<double>(block),
                                                right = b.grid<double>(block);
        left.valid().for_each([&](const Point& at) { expect(left[at] == right[at], "the same"); });
    }
}

/// Where loops without index calculations find an array: from a base, by bytes, in the order that
/// the program asked for.
void columns_first() {
    const BlockCyclic layout({12, 10}, "(*, *)", 1);
    const XArray u(MPI_COMM_SELF, layout, sizeof(double),
                   {.order = datamover::ElementOrder::column_major});
    const datamover::BlockMemory& block = u.block_memory(0);
    expect(u.origin(0) == u.part().base + block.offset_bytes, "its element (0, 0)");
    expect(block.strides_bytes == Point{8, 96} && block.valid == u.layout().domain(), "by columns");
}

/// By hand and by a mover.
void compare(MPI_Comm comm, const char* name, const MotionPlan& plan,
             const datamover::XArrayOptions& options = {}) {
    const XArray from(comm, plan.source(), sizeof(double), options),
        to(comm, plan.destination(), sizeof(double), options),
        again(comm, plan.destination(), sizeof(double), options);
    fill(from, 1000.0 * from.rank());
    fill(to, -1e6), fill(again, -1e6);
    const datamover::PerSide<std::size_t> elems = move_by_hand(comm, plan, from, to);
    datamover::Mover mover(comm, plan, from, again);
    mover.start();
    expect(mover.in_flight(), "between start and wait");
    mover.wait();
    expect_equal(to, again);
    const datamover::MoverCounters counters = mover.counters();
    expect(counters.rounds == 1, "one start and wait");
    if (from.rank() != 0) return;
    std::printf("%s: by hand as by a mover; process 0 is", name);
    for (const Side side : datamover::both_sides)
        std::printf(" %s of %zu", side_name(side), elems[side]);
    std::printf(" elements\n");
}

/// What a plan's only term says, by its kind.
void terms(const MotionPlan& ghosts, const MotionPlan& tiles) {
    const auto* halo = std::get_if<datamover::HaloExchange>(&ghosts[0]);
    expect(halo && halo->lower == Point{1, 1} && halo->corners, "a halo of width 1");
    const auto* all = std::get_if<datamover::Redistribution>(&tiles[0]);
    expect(all && all->axes == std::vector<int>{1, 0} && !all->partial, "a transpose");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int nprocs = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    const Region square = Region::from_shape({12, 12});
    const Point one{1, 1};
    const BlockCyclic rows({12, 12}, "(cyclic(2), *)", nprocs),
        columns({12, 12}, "(*, cyclic(3))", nprocs);
    const FloorPlan boxes = FloorPlan::uniform(square, {3, 3}, nprocs);

    const MotionPlan transpose = redistribute(rows, columns, {1, 0});
    compare(MPI_COMM_WORLD, "transpose", transpose);
    const MotionPlan ghosts = halo(boxes, one, one, square);
    compare(MPI_COMM_WORLD, "halo", ghosts, {.ghost_lower = one, .ghost_upper = one});
    terms(ghosts, transpose);
    shapes(ghosts);
    columns_first();

    MotionPlan reshape(boxes, boxes);  // the first four columns of a box to four rows of another
    reshape.copy(0, Region({0, 0}, {3, 4}), 4, Region({4, 4}, {8, 7}));
    compare(MPI_COMM_WORLD, "another shape", reshape);

    std::vector<std::int64_t> offsets, indices(144);  // every process has its share, backwards
    for (int rank = 0; rank <= nprocs; ++rank) offsets.push_back(144 * rank / nprocs);
    std::iota(indices.rbegin(), indices.rend(), 0);
    compare(MPI_COMM_WORLD, "a list of indices",
            redistribute(rows, datamover::IndexList({12, 12}, offsets, indices)));
    MPI_Finalize();
    return 0;
}

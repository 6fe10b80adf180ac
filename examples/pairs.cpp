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

using datamover::Array;
using datamover::BlockCyclic;
using datamover::FloorPlan;
using datamover::Layout;
using datamover::MotionPlan;
using datamover::PeerPart;
using datamover::Point;
using datamover::Region;
using datamover::Side;

/// One element of a message: its local blocks, and its position in each.
struct Element {
    datamover::BlockPair blocks;
    datamover::PerSide<Point> at;
};

/// The position of an element of a block from its row-major number.
Point point_of(std::int64_t flat, const Point& extents) {
    Point at = extents;
    for (int d = extents.dims() - 1; d >= 0; --d) {
        at[d] = flat % extents[d];
        flat /= extents[d];
    }
    return at;
}

/// The elements of a piece, in the order of the message. There are four kinds.
class Elements {
public:
    Elements(const MotionPlan& plan, std::vector<Element>& all) : plan_(plan), all_(all) {}

    /// Boxes, such as ghosts: boxes with the same extents and places in their blocks share a shape.
    void operator()(const datamover::BoxList& list) {
        for (const datamover::PlacedBox& box : list.boxes) {
            const datamover::BoxShape& shape = list.shape_of(box);
            std::vector<std::int64_t> lengths;
            for (const datamover::BoxAxis& axis : shape.axes()) lengths.push_back(axis.length);
            Region::from_shape(Point(lengths)).for_each([&](const Point& step) {
                Element element{{box.source_block, box.destination_block}, {step, step}};
                for (int d = 0; d < step.dims(); ++d) {
                    const datamover::BoxAxis& axis = shape.axis[static_cast<std::size_t>(d)];
                    element.at.source[axis.source_dim] = axis.source + step[d];
                    element.at.destination[axis.destination_dim] = axis.destination + step[d];
                }
                all_.push_back(element);
            });
        }
    }

    /// Products of tables, one for each dimension, as between block-cyclic layouts.
    void operator()(const datamover::ProductPiece& piece) {
        const int dims = static_cast<int>(piece.axes.size());
        Element element{piece, {Point::filled(dims, 0), Point::filled(dims, 0)}};
        add(piece, 0, element);
    }

    /// Regions of different shapes with equally many points, both with the last dimension fastest.
    void operator()(const datamover::ReshapePiece& piece) {
        const std::size_t first = all_.size();
        piece.source.for_each([&](const Point& from) { all_.push_back({piece, {from, from}}); });
        std::size_t n = first;
        piece.destination.for_each([&](const Point& to) { all_[n++].at[Side::destination] = to; });
    }

    /// Single elements, as between lists of indices.
    void operator()(const datamover::IndexPiece& piece) {
        const Point from = plan_.source().block_extents(piece.source_block),
                    to = plan_.destination().block_extents(piece.destination_block);
        for (std::size_t i = 0; i < piece.source.size(); ++i)
            all_.push_back(
                {piece, {point_of(piece.source[i], from), point_of(piece.destination[i], to)}});
    }

    /// Ranges of the flattened array that rarely repeat: there are none between these layouts.
    void operator()(const datamover::RangesPiece& piece) {
        expect(piece.size() == 0, "no ranges of the flattened array");
    }

private:
    /// The elements that the tables of this axis and of the inner axes describe.
    void add(const datamover::ProductPiece& piece, std::size_t axis, Element& element) {
        if (axis == piece.axes.size()) {
            all_.push_back(element);
            return;
        }
        const datamover::PieceAxis& along = piece.axes[axis];
        along.table->for_each_block([&](std::int64_t from, std::int64_t to, std::int64_t length) {
            for (std::int64_t k = 0; k < length; ++k) {
                element.at.source[along.source_dim] = from + k;
                element.at.destination[along.destination_dim] = to + k;
                add(piece, axis + 1, element);
            }
        });
    }

    const MotionPlan& plan_;
    std::vector<Element>& all_;
};

std::vector<Element> elements_of(const MotionPlan& plan, const datamover::PairPart& part) {
    std::vector<Element> elements;
    for (const datamover::Piece& piece : part.pieces) {
        const auto before = static_cast<std::int64_t>(elements.size());
        std::visit(Elements(plan, elements), piece.content);
        expect(static_cast<std::int64_t>(elements.size()) == before + piece.size(), "all of it");
    }
    expect(static_cast<std::int64_t>(elements.size()) == part.size(), "of every piece");
    return elements;
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

/// Executes a plan by one collective operation. Both sides derive the same order by themselves.
/// Returns the numbers of elements that this process sent and received.
datamover::PerSide<std::size_t> move_by_hand(MPI_Comm comm, const MotionPlan& plan,
                                             const Array& from, const Array& to) {
    int nprocs = 0;
    MPI_Comm_size(comm, &nprocs);
    Counts send(nprocs), receive(nprocs);
    const std::vector<PeerPart> outgoing = plan.outgoing(from.rank()),
                                incoming = plan.incoming(to.rank());
    std::vector<double> packed;
    for (const PeerPart& peer : outgoing) {  // in ascending order of ranks
        send.of[static_cast<std::size_t>(peer.rank)] = static_cast<int>(peer.part.size());
        for (const Element& e : elements_of(plan, peer.part))
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
        for (const Element& e : elements_of(plan, peer.part))
            to.grid<double>(e.blocks.destination_block)[e.at.destination] = come[n++];
    return {packed.size(), come.size()};
}

/// The numbers of this process's elements, ghosts too; all different within a process.
void fill(const Array& array, double begin) {
    for (const std::int64_t block : array.layout().blocks_of(array.rank())) {
        const datamover::GridView<double> grid = array.grid<double>(block);
        grid.valid().for_each([&](const Point& at) { grid[at] = begin++; });
    }
}

void expect_equal(const Array& a, const Array& b) {
    for (const std::int64_t block : a.layout().blocks_of(a.rank())) {
        const datamover::GridView<const double> left = a.grid<double>(block),
                                                right = b.grid<double>(block);
        left.valid().for_each([&](const Point& at) { expect(left[at] == right[at], "the same"); });
    }
}

/// The base, byte strides and order of an array, for loops without index calculations.
void columns_first() {
    const BlockCyclic layout({12, 10}, "(*, *)", 1);
    const Array u(MPI_COMM_SELF, layout, sizeof(double),
                  {.order = datamover::ElementOrder::column_major});
    const datamover::BlockMemory& block = u.block_memory(0);
    expect(u.origin(0) == u.part().base + block.offset_bytes, "its element (0, 0)");
    expect(block.strides_bytes == Point{8, 96} && block.valid == u.layout().domain(), "by columns");
}

/// By hand and by a mover.
void compare(MPI_Comm comm, const char* name, const MotionPlan& plan,
             const datamover::ArrayOptions& options = {}) {
    const Array from(comm, plan.source(), sizeof(double), options),
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

/// The content of a plan's only term, by its kind.
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
    columns_first();

    MotionPlan reshape(boxes, boxes);  // the first four columns of a box to four rows of another
    reshape.add_section(0, Region({0, 0}, {3, 4}), 4, Region({4, 4}, {8, 7}));
    compare(MPI_COMM_WORLD, "another shape", reshape);

    std::vector<std::int64_t> offsets, indices(144);  // every process has its share, backwards
    for (int rank = 0; rank <= nprocs; ++rank) offsets.push_back(144 * rank / nprocs);
    std::iota(indices.rbegin(), indices.rend(), 0);
    compare(MPI_COMM_WORLD, "a list of indices",
            redistribute(rows, datamover::IndexList({12, 12}, offsets, indices)));
    MPI_Finalize();
    return 0;
}

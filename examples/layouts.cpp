// SPDX-License-Identifier: BSD-3-Clause
// Layouts in C++: defining which process owns which elements, and querying it.
// Run: mpiexec -n 4 ./layouts
#include <mpi.h>

#include <cstdio>
#include <datamover/datamover.hpp>
#include <numeric>
#include <vector>

#include "checked.hpp"

namespace {

using datamover::BlockCyclic;
using datamover::FlatCyclic;
using datamover::FloorPlan;
using datamover::IndexList;
using datamover::Layout;
using datamover::Point;
using datamover::Region;

/// A matrix of 6 x 10, distributed in pairs of columns; every process loops over its own columns.
void columns_in_pairs(int rank, int nprocs) {
    const BlockCyclic pairs({6, 10}, "(*, cyclic(2))", nprocs);
    expect(pairs.owner_of({5, 3}) == 1 % nprocs, "pair 1 belongs to process 1");
    const Point local = pairs.local_index({5, 3});
    expect(pairs.global_index(1 % nprocs, local) == Point{5, 3}, "there and back");

    // The columns of this process, as a set of indices.
    const datamover::AxisSet columns = pairs.axis_set(1, pairs.grid_coordinates(rank)[1]);
    expect(columns.size() == pairs.local_shape(rank)[1], "as many as the local array has");
    for (std::int64_t j = 0; j < columns.size(); ++j)
        expect(pairs.owner_of({0, columns.global(j)}) == rank, "each of them is mine");
    if (columns.size() > 0)  // of more than five processes, some have none
        expect(columns.local(columns.lower()) == 0 && columns.upper() <= 10, "from the first on");

    // The positions of these columns in an array that is distributed column by column. A table of a
    // few runs suffices for any number of columns.
    const BlockCyclic single({6, 10}, "(*, cyclic)", nprocs);
    const datamover::AxisTable both = intersect(columns, 0, single.axis_set(1, 0), 0, 10);
    both.for_each_block([&](std::int64_t here, std::int64_t there, std::int64_t length) {
        for (std::int64_t k = 0; k < length; ++k)
            expect(columns.global(here + k) == (there + k) * nprocs, "the same column");
    });
}

/// Tables of such positions can be read, reversed and made by hand. Their size depends on the
/// pattern, not on the array.
void tables() {
    const std::int64_t elems = 6'000'001;
    const BlockCyclic threes({elems}, "(cyclic(3))", 4), fours({elems}, "(cyclic(4))", 4);
    const datamover::AxisTable table =
        intersect(threes.axis_set(0, 1), 0, fours.axis_set(0, 2), 0, elems);
    const std::int64_t period = datamover::common_period(3 * 4, 4 * 4);
    expect(period == 48 && table.periods() <= elems / period, "alike every 48 elements");
    expect(
        table.period_size() == 3 && table.source_period() == 12 && table.destination_period() == 12,
        "3 of 48, which are 12 positions further on each side");
    std::int64_t positions = table.periods() * table.period_size();
    for (const datamover::AxisRun& run : table.tail()) positions += run.count * run.length;
    expect(table.size() == positions, "the periods, and what is behind them");
    expect(table.reversed().source_half().size() == table.size(), "the way back, as a message");
    expect(!table.single_run() && table.nbytes() < 1000, "a million positions");

    const std::vector<datamover::AxisRun> runs =
        datamover::fold_runs({{0, 0, 2}, {5, 2, 2}, {10, 4, 2}});
    expect(runs.size() == 1 && runs[0].count == 3 && runs[0].source_step == 5, "3 blocks of 2");
    expect(datamover::AxisTable(runs).shifted(1, 0).single_run(), "one place further");
}

/// Three replicas of an array, each on a grid of its own, with ranks in a chosen order.
void replicas_on_chosen_processes() {
    datamover::BlockCyclicOptions options;
    options.grid = {2, 1};
    options.replicas = 3;
    options.ranks = {5, 4, 3, 2, 1, 0};
    const BlockCyclic thrice({8, 8}, "(block, *)", 6, options);
    expect(thrice.block_at({1, 0}) == 1 && thrice.owner(1) == 4, "the first replica's lower half");
    expect(thrice.block_of(0) == 5 && thrice.holds_intervals(0), "the last one's");
    // A matrix of ScaLAPACK: a column-major process grid, its first block on the second process.
    datamover::BlockCyclicOptions blacs;
    blacs.grid = {3, 2};
    blacs.first_process = {1, 0};
    blacs.column_major_grid = true;
    const BlockCyclic tiles({8, 8}, "(cyclic(2), cyclic(2))", 6, blacs);
    expect(tiles.column_major_grid() && tiles.first_process() == Point{1, 0}, "as it was said");
    expect(tiles.coordinate_of_index(0, 0) == 1 && tiles.owner_of({0, 2}) == 4, "row 1, column 1");
    // The parsed notation, without an array.
    const auto words = datamover::parse_distribution("(block, cyclic(4), *)");
    expect(words[1].kind == datamover::AxisDistribution::Kind::cyclic && words[1].block == 4, "4");
}

/// Boxes of a plane: tiles, cuts at chosen places, shares by weight; and queries of boxes.
void boxes(int nprocs) {
    const Region plane = Region::from_shape({12, 9});
    const FloorPlan tiles = FloorPlan::tiles(plane, {4, 3}, nprocs, "cyclic");
    expect(tiles.num_blocks() == 9 && tiles.disjoint(), "3 x 3 tiles");
    expect(tiles.lower_corners()[2 * 4] == 4 && tiles.upper_corners()[2 * 4] == 8, "of tile 4");
    const FloorPlan cut = FloorPlan::from_splits(plane, {{2, 7}, {}}, nprocs);
    expect(cut.region(1) == Region({2, 0}, {7, 9}), "the middle one");
    const FloorPlan weighed = FloorPlan::bisected(plane, {1, 1, 4});
    expect(weighed.region(2).size() > weighed.region(0).size(), "four times the work");

    // The processes that own a part of this box.
    const Region wanted({3, 2}, {5, 4});
    expect(wanted.intersects(tiles.region(0)), "tile 0, among others");
    expect(wanted.intersected(tiles.region(8)) == Region::empty_region(2), "not the last one");
    for (const std::int64_t tile : tiles.find(wanted)) {
        const Region part = tiles.region(tile).intersected(wanted);
        expect(part.size() == 1 && wanted.contains(part), "one point of each of four tiles");
    }

    // Boxes of a refined grid may overlap: the box with the lowest number sends a common point.
    const Region low({0, 0}, {4, 4}), high = low.shifted({2, 2});
    const FloorPlan overlapping({low, high}, {0, nprocs - 1}, nprocs);
    std::int64_t points = low.size();
    for (const Region& rest : overlapping.exclusive_regions(1)) points += rest.size();
    expect(points == 28 && !overlapping.disjoint(), "4 of 32 points stand twice");
    expect(overlapping.bounding_box() == low.bounding(high), "around both");
    expect(subtract_all(plane, {low, high}).size() > 1, "what neither holds, as boxes");
    expect(low.subtracted(high).size() == 2, "what only the low one holds, as two boxes");
    expect(high.coarsened({2, 2}) == Region({1, 1}, {3, 3}), "the coarse cells beneath");
    expect(high.coarsened({2, 2}).refined({2, 2}) == high, "it was aligned to them");
    expect(high.to_string() == "[2:6, 2:6)", "as slices are written");
    expect(high.hi().to_vector() == std::vector<std::int64_t>{6, 6}, "for calls that want numbers");
}

/// A flat file of 1000 doubles in stripes of 800 bytes.
void stripes(int nprocs) {
    const FlatCyclic stripes = FlatCyclic::of_bytes({10, 100}, 800, sizeof(double), nprocs);
    const FlatCyclic::Place place = stripes.place_of(123);
    expect(place.block == 1 % nprocs, "the second stripe");
    expect(stripes.flat_set(place.block).global(place.position) == 123, "there and back");
    expect(stripes.block_elems() == 100 && stripes.num_filled_blocks() <= nprocs, "100 doubles");
}

/// Single elements assigned by a partitioner; each process has only its own list.
void lists_of_indices(MPI_Comm comm, int rank, int nprocs) {
    const std::int64_t elems = 5 * nprocs;
    std::vector<std::int64_t> mine;  // every nprocs-th, and the next one as a copy
    for (std::int64_t i = rank; i < elems; i += nprocs) mine.push_back(i);
    const std::int64_t copy = (rank + 1) % nprocs;
    if (nprocs > 1) mine.push_back(copy);
    const std::span<const std::int64_t> lists[] = {mine};
    const IndexList list = datamover::index_lists(comm, {elems}, lists)[0];
    expect(list.count_of(rank) == static_cast<std::int64_t>(mine.size()), "as long as mine");
    expect(!list.knows_all(), "nobody has all lists");
    const auto holders = list.holders(copy);
    expect(holders.size() == (nprocs > 1 ? 2 : 1), "two have it, and each knows of the other");

    // If one process has all lists.
    const std::int64_t offsets[] = {0, 2, 3}, indices[] = {7, 1, 4};
    const IndexList whole({8}, offsets, indices);
    expect(whole.indices_of(0)[1] == 1 && whole.holders(4)[0].rank == 1, "as they were said");
    expect(whole.holders(0).empty(), "nobody has index 0");
    for (const IndexList::Holder& holder : whole.holders_between(4, 8))
        expect(holder.rank == (holder.index == 7 ? 0 : 1), "4 and 7, in this order");
}

/// Queries that every kind of layout supports.
void of_all_kinds(int rank, int nprocs) {
    const Layout layouts[] = {BlockCyclic({6, 10}, "(block, block)", nprocs),
                              FloorPlan::uniform(Region::from_shape({6, 10}), {2, 2}, nprocs),
                              FlatCyclic({6, 10}, 7, nprocs)};
    for (const Layout& layout : layouts) {
        std::int64_t elems = 0;
        for (std::int64_t process = 0; process < nprocs; ++process)
            elems += layout.local_elems(process);
        expect(elems <= 60 && layout.domain() == Region({0, 0}, {6, 10}), "no element twice");
        expect(layout.has_products() == !layout.flat_cyclic(), "all but ranges are products");
        // The usual memory layout: dense blocks, one after the other.
        const datamover::MemoryLayout memory = dense_memory(layout, rank, sizeof(float));
        for (const std::int64_t block : layout.blocks_of(rank)) {
            expect(memory.find(block)->valid.size() == layout.block_extents(block).product(),
                   "all");
            if (layout.has_products())
                expect(layout.axis_sets(block)[1].size() == layout.block_extents(block)[1], "j");
        }
        if (rank == 0) std::printf("%s\n", layout.describe().c_str());
    }
    expect(layouts[0].block_cyclic() && layouts[1].floor_plan(), "they know what they are");
    expect(layouts[0].digest() != layouts[1].digest(), "almost surely");
}

/// Invalid arguments are reported before anything happens, by a code and a message.
void mistakes() {
    try {
        const BlockCyclic none({6, 10}, "(block, blok)", 4);
    } catch (const datamover::Error& error) {
        expect(error.code() == datamover::ErrorCode::invalid_argument, "match codes");
        std::printf("%s: %s\n", error_code_name(error.code()), error.what());
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, nprocs = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    columns_in_pairs(rank, nprocs);
    tables();
    replicas_on_chosen_processes();
    boxes(nprocs);
    stripes(nprocs);
    lists_of_indices(MPI_COMM_WORLD, rank, nprocs);
    of_all_kinds(rank, nprocs);
    if (rank == 0) mistakes();
    MPI_Finalize();
    return 0;
}

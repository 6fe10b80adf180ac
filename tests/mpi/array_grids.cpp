// SPDX-License-Identifier: BSD-3-Clause
// Grids of an array: show its elements, ghosts included, and reject elements of another size.
#include <mpi.h>

#include <cstdint>

#include "datamover/datamover.hpp"
#include "mpi_test.hpp"

using namespace datamover;

namespace {

FloorPlan slabs(std::int64_t nprocs) {
    std::vector<Region> boxes;
    std::vector<std::int64_t> owners;
    for (std::int64_t rank = 0; rank < nprocs; ++rank) {
        boxes.push_back({Point{3 * rank, 0}, Point{3 * rank + 3, 4}});
        owners.push_back(rank);
    }
    return {boxes, owners, nprocs};
}

/// The number at a global index of a field that is periodic in the first dimension.
std::int64_t field(std::int64_t i, std::int64_t j, std::int64_t rows) {
    return 10 * ((i + rows) % rows) + j;
}

TEST(ArrayGrids, ShowGhostsAtIndicesOutsideTheBlock) {
    const int nprocs = mpi_test::world_size(), rank = mpi_test::world_rank();
    const std::int64_t rows = 3 * nprocs;
    const FloorPlan plan = slabs(nprocs);
    Array u(MPI_COMM_WORLD, plan, 8, {.ghost_lower = {1, 0}, .ghost_upper = {1, 0}});
    const auto grid = u.grid<std::int64_t>(rank);
    for (std::int64_t i = 0; i < grid.extent(0); ++i)
        for (std::int64_t j = 0; j < grid.extent(1); ++j) grid(i, j) = field(3 * rank + i, j, rows);
    Mover(MPI_COMM_WORLD, halo(plan, {1, 0}, {1, 0}, Region({0, 0}, {rows, 4}), {true, false}), u,
          u)();
    mpi_test::Comparisons comparisons;
    for (std::int64_t i = -1; i <= grid.extent(0); ++i)
        for (std::int64_t j = 0; j < grid.extent(1); ++j)
            comparisons.note(grid(i, j) == field(3 * rank + i, j, rows), "a ghost");
    comparisons.expect_all();
}

TEST(ArrayGrids, AreRefusedForOtherElementsAndForBlocksOfOthers) {
    const int nprocs = mpi_test::world_size(), rank = mpi_test::world_rank();
    Array u(MPI_COMM_WORLD, slabs(nprocs), 8);
    const auto code_of = [](auto&& call) {
        try {
            call();
        } catch (const Error& e) {
            return e.code();
        }
        return ErrorCode{};
    };
    EXPECT_EQ(code_of([&] { u.grid<float>(rank); }), ErrorCode::wrong_type);
    EXPECT_EQ(code_of([&] { u.grid<double>(nprocs); }), ErrorCode::out_of_range);
    EXPECT_EQ(code_of([&] { u.local<float>(); }), ErrorCode::wrong_type);
    u.close();
    EXPECT_EQ(code_of([&] { u.grid<double>(rank); }), ErrorCode::invalid_state);
    EXPECT_EQ(code_of([&] { u.local<double>(); }), ErrorCode::invalid_state);
}

TEST(ArrayGrids, AreShownWithoutANumberWhereAProcessHoldsOne) {
    const int nprocs = mpi_test::world_size(), rank = mpi_test::world_rank();
    Array u(MPI_COMM_WORLD, slabs(nprocs), 8);
    EXPECT_EQ(u.local<double>().data(), u.grid<double>(rank).data());
    EXPECT_EQ(u.local<double>().shape(), Point({3, 4}));

    BlockCyclicOptions first_only;
    first_only.grid = {1, 1};
    const Array at_first(MPI_COMM_WORLD,
                         BlockCyclic(Point{5, 6}, "(block, block)", nprocs, first_only), 8);
    EXPECT_EQ(at_first.local<double>().shape(), rank == 0 ? Point({5, 6}) : Point({0, 0}));

    const FloorPlan all_at_first({Region({0}, {2}), Region({2}, {5})}, {0, 0}, nprocs);
    const Array two(MPI_COMM_WORLD, all_at_first, 8);
    if (rank == 0)
        EXPECT_THROW(two.local<double>(), Error);
    else
        EXPECT_EQ(two.local<double>().extent(0), 0);
}

}  // namespace

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

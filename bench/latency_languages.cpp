// SPDX-License-Identifier: BSD-3-Clause
// Exchange of faces by a mover that is called from C and from Fortran.
#include "latency_languages.hpp"

#include <memory>
#include <stdexcept>

#include "datamover/datamover.h"

namespace bench {
namespace {

void check(int code) {
    if (code != DATAMOVER_SUCCESS) throw std::runtime_error(datamover_error_message());
}

/// The blocks of the grid as the faces of other languages take them: [lo, hi) and owners.
struct Table {
    std::vector<std::int64_t> lo, hi, owners;

    explicit Table(const BlockGrid& grid) {
        for (std::int64_t b = 0; b < grid.num_blocks(); ++b) {
            for (const std::int64_t c : grid.coordinates(b)) {
                lo.push_back(c * grid.edge);
                hi.push_back((c + 1) * grid.edge);
            }
            owners.push_back(grid.owner(b));
        }
    }
};

}  // namespace

std::function<void()> halo_from_c(MPI_Comm comm, const BlockGrid& grid, const OwnBlocks& own) {
    int nprocs = 1;
    MPI_Comm_size(comm, &nprocs);
    const Table table(grid);
    const std::int64_t e = grid.stored_edge(), ones[] = {1, 1, 1}, none[] = {0, 0, 0};
    const std::int64_t strides_bytes[] = {e * e * 8, e * 8, 8};
    std::int64_t end[3];
    for (int d = 0; d < 3; ++d) end[d] = grid.blocks()[static_cast<std::size_t>(d)] * grid.edge;
    datamover_layout* layout = nullptr;
    datamover_plan* plan = nullptr;
    datamover_array* array = nullptr;
    datamover_mover* mover = nullptr;
    check(datamover_layout_create_floor_plan(3, grid.num_blocks(), table.lo.data(), table.hi.data(),
                                             table.owners.data(), nprocs, &layout));
    check(datamover_halo(layout, ones, ones, none, end, nullptr, 0, &plan));
    std::vector<datamover_block> blocks;
    for (std::size_t i = 0; i < own.numbers.size(); ++i)
        blocks.push_back(
            {own.numbers[i], own.stored[i] + e * e + e + 1, strides_bytes, ones, ones});
    check(datamover_array_of_blocks(layout, DATAMOVER_FLOAT64, 8, blocks.data(),
                                    static_cast<std::int64_t>(blocks.size()), &array));
    check(datamover_mover_create(comm, plan, array, array, nullptr, &mover));
    datamover_array_free(&array);
    datamover_plan_free(&plan);
    datamover_layout_free(&layout);
    const std::shared_ptr<datamover_mover> kept(mover, [](auto* m) { datamover_mover_abort(&m); });
    return [kept] { check(datamover_mover_run(kept.get())); };
}

#ifdef DATAMOVER_BENCH_FORTRAN

extern "C" {
/// latency_halo.f90: makes the exchange, carries it out, frees it.
void* bench_halo_new(int comm, std::int64_t edge, int num_blocks, const std::int64_t* blocks,
                     const int* lo, const int* owners, int nprocs, int num_own, const int* numbers,
                     double* const* stored);
void bench_halo_move(void* halo);
void bench_halo_free(void* halo);
}

std::function<void()> halo_from_fortran(MPI_Comm comm, const BlockGrid& grid,
                                        const OwnBlocks& own) {
    int nprocs = 1;
    MPI_Comm_size(comm, &nprocs);
    std::vector<int> lo, owners, numbers;
    for (std::int64_t b = 0; b < grid.num_blocks(); ++b) {
        // The first dimension is the fastest in Fortran.
        const Index c = grid.coordinates(b);
        for (const int d : {2, 1, 0})
            lo.push_back(static_cast<int>(c[static_cast<std::size_t>(d)] * grid.edge) + 1);
        owners.push_back(grid.owner(b));
    }
    for (const std::int64_t b : own.numbers) numbers.push_back(static_cast<int>(b) + 1);
    const Index n = grid.blocks(), blocks{n[2], n[1], n[0]};
    const std::shared_ptr<void> kept(
        bench_halo_new(static_cast<int>(MPI_Comm_c2f(comm)), grid.edge,
                       static_cast<int>(owners.size()), blocks.data(), lo.data(), owners.data(),
                       nprocs, static_cast<int>(numbers.size()), numbers.data(), own.stored.data()),
        bench_halo_free);
    return [kept] { bench_halo_move(kept.get()); };
}

#else

std::function<void()> halo_from_fortran(MPI_Comm, const BlockGrid&, const OwnBlocks&) {
    throw std::runtime_error("the Fortran module was not built (DATAMOVER_FORTRAN)");
}

#endif

}  // namespace bench

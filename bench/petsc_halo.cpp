// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of PETSc's DMDA on the same ghosts. It is linked against PETSc and the MPI that PETSc
// was built for, not against datamover; the harness compiles it if they are installed.
// Arguments: those of the program `halo`.
#include <petscdmda.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "halo_values.hpp"
#include "process_contest.hpp"

namespace {

using bench::BlockGrid;

void check(PetscErrorCode code) {
    if (code != 0)
        throw std::runtime_error("PETSc fails with " + std::to_string(static_cast<int>(code)));
}

/// A block per process, and its ghosts.
class Grid {
public:
    Grid(MPI_Comm comm, const BlockGrid& grid) : grid_(grid) {
        MPI_Comm_rank(comm, &rank_);
        const auto number = [](std::int64_t v) { return static_cast<PetscInt>(v); };
        const bench::Index p = grid.processes;
        // The first dimension is the contiguous one here.
        check(DMDACreate3d(comm, DM_BOUNDARY_PERIODIC, DM_BOUNDARY_PERIODIC, DM_BOUNDARY_PERIODIC,
                           DMDA_STENCIL_BOX, number(p[2] * grid.edge), number(p[1] * grid.edge),
                           number(p[0] * grid.edge), number(p[2]), number(p[1]), number(p[0]), 1,
                           number(grid.width), nullptr, nullptr, nullptr, &dm_));
        check(DMSetUp(dm_));
        check(DMCreateGlobalVector(dm_, &global_));
        check(DMCreateLocalVector(dm_, &local_));
    }
    ~Grid() {
        static_cast<void>(VecDestroy(&local_));
        static_cast<void>(VecDestroy(&global_));
        static_cast<void>(DMDestroy(&dm_));
    }
    Grid(const Grid&) = delete;
    Grid& operator=(const Grid&) = delete;

    bench::ProcessContest::Check check_of() {
        return {[this] {
                    on_block([this](auto block_of) {
                        bench::fill_blocks(grid_, rank_, block_of);
                        keep_interior(block_of(0));
                    });
                },
                [this] {
                    bool right = false;
                    on_block([&](auto block_of) {
                        right = bench::blocks_right(grid_, rank_, block_of);
                    });
                    return right;
                }};
    }

    /// Ghosts only, from and to the same vector.
    void local_to_local() {
        check(DMLocalToLocalBegin(dm_, local_, INSERT_VALUES, local_));
        check(DMLocalToLocalEnd(dm_, local_, INSERT_VALUES, local_));
    }
    /// As most programs do: the interior is copied too.
    void global_to_local() {
        check(DMGlobalToLocalBegin(dm_, global_, INSERT_VALUES, local_));
        check(DMGlobalToLocalEnd(dm_, global_, INSERT_VALUES, local_));
    }

private:
    template <class Use>
    void on_block(Use&& use) {
        PetscScalar* stored = nullptr;
        check(VecGetArray(local_, &stored));
        use([stored](std::int64_t) -> double* { return stored; });
        check(VecRestoreArray(local_, &stored));
    }

    /// Into the global vector. DMLocalToGlobal does not insert where one process has the whole of a
    /// periodic dimension x.
    void keep_interior(const double* stored) {
        PetscScalar* interior = nullptr;
        check(VecGetArray(global_, &interior));
        const std::int64_t n = grid_.edge;
        for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t j = 0; j < n; ++j)
                std::copy_n(stored + grid_.origin_elems() + grid_.offset_of({i, j, 0}), n,
                            interior + (i * n + j) * n);
        check(VecRestoreArray(global_, &interior));
    }

    BlockGrid grid_;
    int rank_ = 0;
    DM dm_ = nullptr;
    Vec global_ = nullptr, local_ = nullptr;
};

void run_case(const std::string& name, const BlockGrid& grid, double seconds) {
    bench::ProcessContest contest(MPI_COMM_WORLD, name, "exchange", bench::ghost_bytes(grid),
                                  seconds);
    contest.warm_turns();
    std::unique_ptr<Grid> dmda;
    const double start = MPI_Wtime();
    try {
        dmda = std::make_unique<Grid>(MPI_COMM_WORLD, grid);
    } catch (const std::exception& e) {
        return contest.leave_out("petsc", e.what());
    }
    const double setup = MPI_Wtime() - start;
    contest.add(
        "petsc:local", [&] { dmda->local_to_local(); }, dmda->check_of(), [=] { return setup; });
    contest.add(
        "petsc:global", [&] { dmda->global_to_local(); }, dmda->check_of(), [=] { return setup; });
    contest.run();
}

}  // namespace

int main(int argc, char** argv) {
    return bench::run_program(argc, argv, "petsc", [&] {
        check(PetscInitializeNoArguments());
        const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
        for (int a = 2; a + 3 < argc; a += 4)
            run_case(argv[a], bench::halo_grid(MPI_COMM_WORLD, argv + a + 1), seconds);
        check(PetscFinalize());
    });
}

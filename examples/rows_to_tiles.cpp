// SPDX-License-Identifier: BSD-3-Clause
// Redistribution of an array from rows to tiles.
// Run: mpiexec -n 4 ./rows_to_tiles
#include <mpi.h>

#include <cstdio>
#include <datamover/datamover.hpp>

namespace {

/// Calls visit(global index as one number, element) for this process's elements of an array.
template <class Visit>
void for_each_local(const datamover::BlockCyclic& layout, const datamover::Array& array,
                    Visit visit) {
    const auto grid = array.grid<double>(layout.block_of(array.rank()));
    datamover::Region::from_shape(layout.local_shape(array.rank())).for_each([&](auto& local) {
        const auto global = layout.global_index(array.rank(), local);
        visit(static_cast<double>(global[0] * layout.shape()[1] + global[1]), grid[local]);
    });
}

long rows_to_tiles(MPI_Comm comm, int nprocs) {
    const datamover::BlockCyclic rows({1000, 1000}, "(block, *)", nprocs);
    const datamover::BlockCyclic tiles({1000, 1000}, "(cyclic(64), cyclic(64))", nprocs);
    datamover::Array a(comm, rows, sizeof(double));
    datamover::Array b(comm, tiles, sizeof(double));
    for_each_local(rows, a, [](double number, double& element) { element = number; });

    datamover::Mover mover(comm, datamover::redistribute(rows, tiles), a, b);
    mover.start();  // any number of times
    mover.wait();

    long wrong = 0;
    for_each_local(tiles, b, [&](double number, double& element) { wrong += element != number; });
    return wrong;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int nprocs = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    long wrong = rows_to_tiles(MPI_COMM_WORLD, nprocs);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    std::printf("%ld elements are wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}

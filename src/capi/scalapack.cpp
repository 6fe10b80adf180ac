// SPDX-License-Identifier: BSD-3-Clause
// How does a C program copy sections between ScaLAPACK's matrices without BLACS?
#include "datamover/scalapack_copy.hpp"
#include "handles.hpp"
#include "matrices.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace {

struct Matrices {
    ScalapackMatrix a, b;
};

std::byte* bytes_at(const void* data) {
    return const_cast<std::byte*>(static_cast<const std::byte*>(data));
}

}  // namespace

int datamover_gemr2d(MPI_Comm comm, int64_t elem_bytes, int m, int n, const void* a, int ia, int ja,
                     const int desca[9], const datamover_process_grid* grid_a, void* b, int ib,
                     int jb, const int descb[9], const datamover_process_grid* grid_b) {
    return guarded([&] {
        const Matrices matrices = capi::collectively(comm, [&] {
            return Matrices{
                {bytes_at(a), entries_of(desca, "desca"), grid_of(grid_a, "grid_a"), ia, ja},
                {bytes_at(b), entries_of(descb, "descb"), grid_of(grid_b, "grid_b"), ib, jb}};
        });
        copy_matrix(comm, m, n, matrices.a, matrices.b, elem_bytes);
    });
}

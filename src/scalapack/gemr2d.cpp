// SPDX-License-Identifier: BSD-3-Clause
// How do calls with the arguments of ScaLAPACK's p?gemr2d learn grids and communicator from BLACS?
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "capi/handles.hpp"
#include "datamover/datamover_scalapack.h"
#include "mover/matrix_section.hpp"
#include "mpi/checked_call.hpp"

// Of the BLACS that the program is linked with; it comes without a header.
extern "C" {
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinfo(int context, int* nprow, int* npcol, int* row, int* column);
MPI_Comm Cblacs2sys_handle(int handle);
}

namespace datamover {
namespace {

constexpr int ask_for_communicator = 10;  // of a context, in Cblacs_get

/// One matrix as this process knows it; a grid without rows where it does not hold a part of it.
struct LocalMatrix {
    std::byte* data = nullptr;
    int first_row = 1, first_column = 1;
    int nprow = 0, npcol = 0, row = -1, column = -1;
    std::array<int, 9> descriptor{};

    bool present() const { return nprow > 0; }
};
constexpr int int_count = 15;  // of a LocalMatrix, as they are told to others
using Told = std::array<int, int_count>;

LocalMatrix local_matrix(const void* data, int first_row, int first_column, const int* descriptor) {
    LocalMatrix matrix;
    matrix.first_row = first_row;
    matrix.first_column = first_column;
    if (!descriptor || descriptor[1] < 0) return matrix;
    Cblacs_gridinfo(descriptor[1], &matrix.nprow, &matrix.npcol, &matrix.row, &matrix.column);
    if (matrix.row < 0 || matrix.column < 0) matrix.nprow = matrix.npcol = 0;
    if (!matrix.present()) return matrix;
    matrix.data = const_cast<std::byte*>(static_cast<const std::byte*>(data));
    std::copy_n(descriptor, 9, matrix.descriptor.begin());
    return matrix;
}

Told told(const LocalMatrix& m) {
    Told t{m.first_row, m.first_column, m.nprow, m.npcol, m.row, m.column};
    std::copy(m.descriptor.begin(), m.descriptor.end(), t.begin() + 6);
    return t;
}

void append_key(std::vector<std::int64_t>& key, const LocalMatrix& matrix) {
    key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(matrix.data)));
    const Told values = told(matrix);
    key.insert(key.end(), values.begin(), values.end());
}

/// All but the place in the grid, the context and the leading dimension.
bool same_matrix(const Told& a, const Told& b) {
    return std::equal(a.begin(), a.begin() + 4, b.begin()) && a[6] == b[6] &&
           std::equal(a.begin() + 8, a.begin() + 14, b.begin() + 8);
}

/// The matrix as all processes together know it; `all` holds what each rank told.
ScalapackMatrix whole_matrix(const LocalMatrix& mine, const std::vector<Told>& all,
                             const char* name) {
    const auto present = [](const Told& t) { return t[2] > 0; };
    const auto first = std::find_if(all.begin(), all.end(), present);
    if (first == all.end())
        throw Error(ErrorCode::invalid_argument,
                    std::string("no process of the context is in the grid of matrix ") + name);
    ScalapackMatrix matrix{mine.data,
                           mine.descriptor,
                           {(*first)[2], (*first)[3], false, {}},
                           (*first)[0],
                           (*first)[1]};
    if (!mine.present()) std::copy(first->begin() + 6, first->end(), matrix.descriptor.begin());
    matrix.grid.ranks.assign(static_cast<std::size_t>(matrix.grid.nprow * matrix.grid.npcol), -1);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const Told& t = all[rank];
        if (!present(t)) continue;
        if (!same_matrix(t, *first))
            throw Error(ErrorCode::mismatch, std::string("section, descriptor or grid of matrix ") +
                                                 name + " are not the same on processes " +
                                                 std::to_string(first - all.begin()) + " and " +
                                                 std::to_string(rank) + " of the context");
        matrix.grid.ranks[static_cast<std::size_t>(t[4] * t[3] + t[5])] =
            static_cast<std::int64_t>(rank);
    }
    if (std::count(matrix.grid.ranks.begin(), matrix.grid.ranks.end(), -1) > 0)
        throw Error(ErrorCode::invalid_argument,
                    std::string("the context does not hold all processes of the "
                                "grid of matrix ") +
                        name);
    return matrix;
}

MPI_Comm communicator_of(int context) {
    int nprow = -1, npcol = -1, row = -1, column = -1, handle = -1;
    Cblacs_gridinfo(context, &nprow, &npcol, &row, &column);
    if (row < 0 || column < 0)
        throw Error(ErrorCode::invalid_argument,
                    "this process is not in the BLACS context " + std::to_string(context));
    Cblacs_get(context, ask_for_communicator, &handle);
    return Cblacs2sys_handle(handle);
}

/// What every process tells of a matrix, by rank.
std::vector<Told> told_by_all(const mpi::ProcessGroup& group, const LocalMatrix& mine) {
    const Told t = told(mine);
    std::vector<Told> all(static_cast<std::size_t>(group.size()));
    mpi::check(
        MPI_Allgather(t.data(), int_count, MPI_INT, all.data(), int_count, MPI_INT, group.comm()),
        "MPI_Allgather");
    return all;
}

void copy_section(int context, int m, int n, const LocalMatrix& a, const LocalMatrix& b,
                  std::int64_t elem_bytes) {
    const MPI_Comm comm = communicator_of(context);
    const auto group = mpi::ProcessGroup::of(comm);
    if (m == 0 || n == 0) return;
    std::vector<std::int64_t> key{m, n, elem_bytes};
    append_key(key, a);
    append_key(key, b);
    Mover mover = cached_mover(comm, key, [&] {
        const auto all_a = told_by_all(*group, a), all_b = told_by_all(*group, b);
        const auto sizes = group->maximum({m, -m, n, -n, elem_bytes, -elem_bytes});
        if (sizes[0] != -sizes[1] || sizes[2] != -sizes[3] || sizes[4] != -sizes[5])
            throw Error(ErrorCode::mismatch,
                        "m, n or the element type are not the same on all processes");
        return section_copy(m, n, whole_matrix(a, all_a, "A"), whole_matrix(b, all_b, "B"),
                            elem_bytes, group->rank(), group->size());
    });
    mover();
}

int gemr2d(std::int64_t elem_bytes, int m, int n, const void* a, int ia, int ja, const int* desca,
           void* b, int ib, int jb, const int* descb, int context) {
    return capi::guarded([&] {
        copy_section(context, m, n, local_matrix(a, ia, ja, desca), local_matrix(b, ib, jb, descb),
                     elem_bytes);
    });
}

}  // namespace
}  // namespace datamover

int datamover_pdgemr2d(int m, int n, const double* a, int ia, int ja, const int* desca, double* b,
                       int ib, int jb, const int* descb, int ctxt) {
    return datamover::gemr2d(8, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt);
}

int datamover_psgemr2d(int m, int n, const float* a, int ia, int ja, const int* desca, float* b,
                       int ib, int jb, const int* descb, int ctxt) {
    return datamover::gemr2d(4, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt);
}

int datamover_pigemr2d(int m, int n, const int* a, int ia, int ja, const int* desca, int* b, int ib,
                       int jb, const int* descb, int ctxt) {
    return datamover::gemr2d(4, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt);
}

int datamover_pcgemr2d(int m, int n, const void* a, int ia, int ja, const int* desca, void* b,
                       int ib, int jb, const int* descb, int ctxt) {
    return datamover::gemr2d(8, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt);
}

int datamover_pzgemr2d(int m, int n, const void* a, int ia, int ja, const int* desca, void* b,
                       int ib, int jb, const int* descb, int ctxt) {
    return datamover::gemr2d(16, m, n, a, ia, ja, desca, b, ib, jb, descb, ctxt);
}

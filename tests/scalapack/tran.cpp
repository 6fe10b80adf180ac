// SPDX-License-Identifier: BSD-3-Clause
// p?tran, p?tranu and p?tranc: leave the same bytes as those of PBLAS. Descriptors: become layouts.
#include <dlfcn.h>
#include <mpi.h>

#include <array>
#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "blacs.h"
#include "datamover/datamover.h"
#include "datamover/datamover_scalapack.h"
#include "mpi_test.hpp"

namespace {

using mpi_test::Draws;

/// A grid of all processes but those that do not fit.
struct Grid {
    int context = -1, nprow, npcol, row = -1, column = -1;

    Grid(Draws& draws, int nprocs) {
        nprow = draws.from(1, nprocs);
        npcol = nprocs / nprow;
        Cblacs_get(0, 0, &context);
        Cblacs_gridinit(&context, draws.from(0, 1) ? "Row" : "Col", nprow, npcol);
        int rows = 0, columns = 0;
        Cblacs_gridinfo(context, &rows, &columns, &row, &column);
        if (row >= nprow || column >= npcol) row = column = -1;
    }
    ~Grid() {
        if (in_grid()) Cblacs_gridexit(context);
    }
    bool in_grid() const { return row >= 0 && column >= 0; }
};

int held(int count, int block, int first, int nprocs, int mine) {
    int sum = 0;
    for (int i = 0; i < count; ++i) sum += (first + i / block) % nprocs == mine;
    return sum;
}

template <class Element>
struct Matrix {
    std::array<int, 9> descriptor{};
    std::vector<Element> values;

    Matrix(Draws& draws, const Grid& grid, int least_m, int least_n) {
        const int m = std::max(1, least_m + draws.from(0, 4)),
                  n = std::max(1, least_n + draws.from(0, 4));
        const int mb = draws.from(1, m + 1), nb = draws.from(1, n + 1);
        const int rsrc = draws.from(0, grid.nprow - 1), csrc = draws.from(0, grid.npcol - 1);
        const int padding = draws.from(0, 2);
        const int lld = std::max(1, held(m, mb, rsrc, grid.nprow, grid.row) + padding);
        descriptor = {1, grid.context, m, n, mb, nb, rsrc, csrc, lld};
        values.resize(static_cast<std::size_t>(
            lld * std::max(1, held(n, nb, csrc, grid.npcol, grid.column))));
        // Small whole numbers: sums and products are exact, in whatever order.
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = value(grid, static_cast<int>(i));
    }
    static Element value(const Grid& grid, int i) {
        const int number = (i * 7 + grid.row * 31 + grid.column * 17) % 64 - 32;
        if constexpr (std::is_floating_point_v<Element>)
            return static_cast<Element>(number);
        else
            return Element(static_cast<typename Element::value_type>(number),
                           static_cast<typename Element::value_type>(i % 5 - 2));
    }
};

template <class Element>
using Tran = void (*)(const int*, const int*, const Element*, const Element*, const int*,
                      const int*, const int*, const Element*, Element*, const int*, const int*,
                      const int*);

/// PBLAS' own, under the name that this program has from datamover_scalapack.
template <class Element>
Tran<Element> theirs(const char* name) {
    static void* const library = dlopen(DATAMOVER_SCALAPACK, RTLD_NOW);
    return reinterpret_cast<Tran<Element>>(library ? dlsym(library, name) : nullptr);
}

template <class Element>
void compare(const char* name, Tran<Element> ours, Draws& draws) {
    const auto pblas = theirs<Element>(name);
    ASSERT_NE(pblas, nullptr) << dlerror();
    ASSERT_NE(pblas, ours);
    mpi_test::Comparisons comparisons;
    for (int round = 0; round < 12; ++round) {
        const Grid grid(draws, mpi_test::world_size());
        const int m = draws.from(0, 12), n = draws.from(0, 12);
        const Element alpha(static_cast<float>(draws.from(-1, 2))),
            beta(static_cast<float>(draws.from(0, 2)));
        const Matrix<Element> a(draws, grid, n, m);
        Matrix<Element> c(draws, grid, m, n);
        if (!grid.in_grid()) continue;
        auto expected = c.values;
        const int one = 1;
        pblas(&m, &n, &alpha, a.values.data(), &one, &one, a.descriptor.data(), &beta,
              expected.data(), &one, &one, c.descriptor.data());
        ours(&m, &n, &alpha, a.values.data(), &one, &one, a.descriptor.data(), &beta,
             c.values.data(), &one, &one, c.descriptor.data());
        comparisons.note(c.values == expected, std::string(name) + ", round " +
                                                   std::to_string(round) + ": " +
                                                   datamover_error_message());
    }
    comparisons.expect_all();
}

/// The names of complex numbers take void pointers.
template <class Element, class Call>
Tran<Element> named(Call* call) {
    return reinterpret_cast<Tran<Element>>(call);
}

TEST(Tran, SameAsPblas) {
    Draws draws(11);
    compare<float>("pstran_", pstran_, draws);
    compare<double>("pdtran_", pdtran_, draws);
    compare<std::complex<float>>("pctranu_", named<std::complex<float>>(pctranu_), draws);
    compare<std::complex<double>>("pztranu_", named<std::complex<double>>(pztranu_), draws);
    compare<std::complex<float>>("pctranc_", named<std::complex<float>>(pctranc_), draws);
    compare<std::complex<double>>("pztranc_", named<std::complex<double>>(pztranc_), draws);
}

/// The layout of a descriptor leads to a plan and a mover: each process gets what the Users'
/// Guide's formulas say.
TEST(LayoutFromBlacs, LeadsToAMover) {
    Draws draws(12);
    const Grid grid(draws, mpi_test::world_size());
    if (!grid.in_grid()) return;
    const int m = 7, n = 5, mb = 2, nb = 1;
    const int lld = std::max(1, held(m, mb, 0, grid.nprow, grid.row));
    const std::array<int, 9> descriptor{1, grid.context, m, n, mb, nb, 0, 0, lld};
    datamover_layout *layout = nullptr, *whole = nullptr;
    MPI_Comm comm = MPI_COMM_NULL;
    ASSERT_EQ(datamover_layout_from_blacs(descriptor.data(), &comm, &layout), DATAMOVER_SUCCESS)
        << datamover_error_message();
    int rank = -1, size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    ASSERT_EQ(size, grid.nprow * grid.npcol);
    std::vector<double> local(
        static_cast<std::size_t>(lld * std::max(1, held(n, nb, 0, grid.npcol, grid.column))));
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
            if (i / mb % grid.nprow == grid.row && j / nb % grid.npcol == grid.column)
                local[static_cast<std::size_t>(i / (mb * grid.nprow) * mb + i % mb +
                                               (j / grid.npcol) * lld)] = 100 * i + j;
    const std::int64_t shape[] = {m, n};
    ASSERT_EQ(datamover_layout_create_block_cyclic(2, shape, "(block, *)", size, nullptr, &whole),
              0);
    datamover_array *from = nullptr, *to = nullptr;
    ASSERT_EQ(datamover_array_of_matrix(layout, rank, descriptor.data(), DATAMOVER_FLOAT64, 8,
                                        local.data(), &from),
              0)
        << datamover_error_message();
    ASSERT_EQ(datamover_array_create(comm, whole, DATAMOVER_FLOAT64, 8, 0, nullptr, nullptr, &to),
              0);
    datamover_plan* plan = nullptr;
    ASSERT_EQ(datamover_redistribute(layout, whole, nullptr, &plan), 0);
    datamover_mover* mover = nullptr;
    ASSERT_EQ(datamover_mover_create(comm, plan, from, to, nullptr, &mover), 0)
        << datamover_error_message();
    ASSERT_EQ(datamover_mover_run(mover), 0);
    std::int64_t extents[2] = {};
    datamover_layout_local_shape(whole, rank, extents);
    void* origin = nullptr;
    std::int64_t strides[2] = {};
    bool right = true;
    if (extents[0] > 0) {
        datamover_array_block(to, rank, &origin, strides);
        for (std::int64_t i = 0; i < extents[0]; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
                const std::int64_t at[] = {i, j};
                std::int64_t global[2];
                datamover_layout_global_index(whole, rank, at, global);
                right = right && static_cast<double*>(origin)[i * n + j] ==
                                     static_cast<double>(100 * global[0] + global[1]);
            }
    }
    EXPECT_TRUE(right);
    datamover_mover_free(&mover);
    datamover_plan_free(&plan);
    datamover_array_free(&from);
    datamover_array_free(&to);
    datamover_layout_free(&layout);
    datamover_layout_free(&whole);
    EXPECT_EQ(datamover_layout_from_blacs(nullptr, nullptr, &layout), DATAMOVER_INVALID_ARGUMENT);
}

}  // namespace

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

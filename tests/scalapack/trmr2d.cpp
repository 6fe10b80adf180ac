// SPDX-License-Identifier: BSD-3-Clause
// p?trmr2d: leaves the same bytes as ScaLAPACK's.
#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "blacs.h"
#include "datamover/datamover.h"
#include "datamover/datamover_scalapack.h"
#include "mpi_test.hpp"

namespace {

using mpi_test::Draws;

/// The context of all processes, in which the calls are made.
int everybody() {
    static const int context = [] {
        int made = -1;
        Cblacs_get(0, 0, &made);
        Cblacs_gridinit(&made, "Row", 1, mpi_test::world_size());
        return made;
    }();
    return context;
}

/// A matrix on a grid of its own, of elements of some bytes each; nothing here outside the grid.
struct Matrix {
    int context = -1, nprow, npcol, row = -1, column = -1;
    std::array<int, 9> descriptor{};
    std::vector<std::uint8_t> bytes;

    Matrix(Draws& draws, int m, int n, int elem_bytes) {
        const int nprocs = mpi_test::world_size();
        nprow = draws.from(1, nprocs), npcol = draws.from(1, nprocs / nprow);
        Cblacs_get(0, 0, &context);
        Cblacs_gridinit(&context, "Row", nprow, npcol);
        const int mb = draws.from(1, m + 1), nb = draws.from(1, n + 1);
        const int rsrc = draws.from(0, nprow - 1), csrc = draws.from(0, npcol - 1);
        if (context >= 0) {
            int rows = 0, columns = 0;
            Cblacs_gridinfo(context, &rows, &columns, &row, &column);
        }
        const bool inside = context >= 0 && row >= 0 && row < nprow && column < npcol;
        descriptor = {1, inside ? context : -1, m, n, mb, nb, rsrc, csrc, m};
        bytes.resize(inside ? static_cast<std::size_t>(m * (n + 1) * elem_bytes) : 0);
        for (std::size_t i = 0; i < bytes.size(); ++i)
            bytes[i] =
                static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(row * 31 + column));
    }
    ~Matrix() {
        if (descriptor[1] >= 0) Cblacs_gridexit(context);
    }
    Matrix(const Matrix&) = delete;
};

using Trmr2d = void (*)(const char*, const char*, const int*, const int*, const void*, const int*,
                        const int*, const int*, void*, const int*, const int*, const int*,
                        const int*);

void compare(const char* name, Trmr2d ours, int elem_bytes, Draws& draws) {
    static void* const library = dlopen(DATAMOVER_SCALAPACK, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto theirs = reinterpret_cast<Trmr2d>(dlsym(library, name));
    ASSERT_NE(theirs, nullptr);
    ASSERT_NE(theirs, ours);
    mpi_test::Comparisons comparisons;
    for (int round = 0; round < 16; ++round) {
        const int m = draws.from(1, 14), n = draws.from(1, 14), all = everybody();
        const char* const uplo = draws.from(0, 1) ? "U" : "L";
        const char* const diag = draws.from(0, 1) ? "U" : "N";
        const int ia = draws.from(1, 3), ja = draws.from(1, 3);
        const int ib = draws.from(1, 3), jb = draws.from(1, 3);
        const Matrix a(draws, m + 2, n + 2, elem_bytes);
        Matrix b(draws, m + 2, n + 2, elem_bytes);
        auto expected = b.bytes;
        theirs(uplo, diag, &m, &n, a.bytes.data(), &ia, &ja, a.descriptor.data(), expected.data(),
               &ib, &jb, b.descriptor.data(), &all);
        ours(uplo, diag, &m, &n, a.bytes.data(), &ia, &ja, a.descriptor.data(), b.bytes.data(), &ib,
             &jb, b.descriptor.data(), &all);
        comparisons.note(b.bytes == expected, std::string(name) + ", round " +
                                                  std::to_string(round) + ": " +
                                                  datamover_error_message());
    }
    comparisons.expect_all();
}

TEST(Trmr2d, SameAsScalapack) {
    Draws draws(31);
    compare("pitrmr2d_", reinterpret_cast<Trmr2d>(pitrmr2d_), 4, draws);
    compare("pstrmr2d_", reinterpret_cast<Trmr2d>(pstrmr2d_), 4, draws);
    compare("pdtrmr2d_", reinterpret_cast<Trmr2d>(pdtrmr2d_), 8, draws);
    compare("pctrmr2d_", reinterpret_cast<Trmr2d>(pctrmr2d_), 8, draws);
    compare("pztrmr2d_", reinterpret_cast<Trmr2d>(pztrmr2d_), 16, draws);
}

TEST(Trmr2d, WrongArgumentsHaveScalapacksPositions) {
    Draws draws(32);
    const Matrix a(draws, 4, 4, 8);
    Matrix b(draws, 4, 4, 8);
    const auto call = [&](const char* uplo, const char* diag, int m, int ib) {
        const auto* from = reinterpret_cast<const double*>(a.bytes.data());
        auto* to = reinterpret_cast<double*>(b.bytes.data());
        datamover_pdtrmr2d(uplo, diag, m, 4, from, 1, 1, a.descriptor.data(), to, ib, 1,
                           b.descriptor.data(), everybody());
        return datamover_gemr2d_argument();
    };
    EXPECT_EQ(call("U", "N", 4, 1), 0) << datamover_error_message();
    EXPECT_EQ(call("X", "N", 4, 1), 1);
    EXPECT_EQ(call("U", "X", 4, 1), 2);
    EXPECT_EQ(call("U", "N", -1, 1), 3);
    EXPECT_EQ(call("U", "N", 4, 2), 10);
}

TEST(ScalapackCache, IsDroppedInAllContexts) {
    Draws draws(33);
    const Matrix a(draws, 4, 4, 8);
    Matrix b(draws, 4, 4, 8);
    const auto* from = reinterpret_cast<const double*>(a.bytes.data());
    auto* to = reinterpret_cast<double*>(b.bytes.data());
    for (int turn = 0; turn < 3; ++turn) {
        EXPECT_EQ(datamover_pdgemr2d(4, 4, from, 1, 1, a.descriptor.data(), to, 1, 1,
                                     b.descriptor.data(), everybody()),
                  DATAMOVER_SUCCESS)
            << datamover_error_message();
        EXPECT_EQ(datamover_scalapack_cache_drop(), DATAMOVER_SUCCESS);
    }
}

}  // namespace

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

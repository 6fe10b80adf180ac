// SPDX-License-Identifier: BSD-3-Clause
// Copies between sections of ScaLAPACK matrices: move the right elements and nothing else.
#include <mpi.h>

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "datamover/array.hpp"
#include "datamover/datamover.h"
#include "mpi_test.hpp"
#include "scalapack/sections/mover_cache.hpp"

namespace {

using mpi_test::Draws;

/// A random matrix: its grid, its descriptor, and where this process keeps its part. Owners and
/// addresses by the Users' Guide's formulas.
struct Matrix {
    datamover_process_grid grid{};
    std::vector<std::int64_t> ranks;
    std::array<int, 9> descriptor{};
    std::vector<std::int64_t> local;
    int row = -1, column = -1;  ///< of this process in the grid

    Matrix(Draws& draws, int rank, int nprocs, int least_rows, int least_columns) {
        const int nprow = draws.from(1, nprocs), npcol = draws.from(1, nprocs / nprow);
        ranks = draws.ranks(nprocs, nprow * npcol);
        grid = {nprow, npcol, draws.from(0, 1), ranks.data()};
        const int m = least_rows + draws.from(0, 5), n = least_columns + draws.from(0, 5);
        descriptor = {1,
                      0,
                      m,
                      n,
                      draws.from(1, m + 1),
                      draws.from(1, n + 1),
                      draws.from(0, nprow - 1),
                      draws.from(0, npcol - 1),
                      0};
        const int padding = draws.from(0, 3);
        for (int i = 0; i < nprow * npcol; ++i)
            if (ranks[static_cast<std::size_t>(i)] == rank) {
                row = grid.column_major ? i % nprow : i / npcol;
                column = grid.column_major ? i / nprow : i % npcol;
            }
        descriptor[8] = m + padding;
        local.assign(row < 0 ? 0 : static_cast<std::size_t>((m + padding) * (n + 1)), -1);
    }
    /// The address of element (i, j), counted from 0, in this process's part; -1 where it is not
    /// here.
    int at(int i, int j) const {
        const auto [type, context, m, n, mb, nb, rsrc, csrc, lld] = descriptor;
        if (row != (rsrc + i / mb) % grid.nprow || column != (csrc + j / nb) % grid.npcol)
            return -1;
        return i / (mb * grid.nprow) * mb + i % mb + (j / (nb * grid.npcol) * nb + j % nb) * lld;
    }
    template <class Value>
    void fill(Value&& value) {
        for (int i = 0; i < descriptor[2]; ++i)
            for (int j = 0; j < descriptor[3]; ++j)
                if (const int k = at(i, j); k >= 0)
                    local[static_cast<std::size_t>(k)] = value(i, j);
    }
    /// With the first element of a section, from 1.
    datamover_matrix here(int i, int j) const {
        const auto* data = local.data();
        return {const_cast<std::int64_t*>(data),
                descriptor.data(),
                i,
                j,
                static_cast<int>(grid.nprow),
                static_cast<int>(grid.npcol),
                row,
                column};
    }
    int copy_from(const Matrix& a, int m, int n, int ia, int ja, int ib, int jb) {
        return datamover_gemr2d(MPI_COMM_WORLD, 8, m, n, a.local.data(), ia, ja,
                                a.descriptor.data(), &a.grid, local.data(), ib, jb,
                                descriptor.data(), &grid);
    }
};

std::int64_t value_at(int i, int j, int round) {
    return 1000000 * round + 1000 * i + j;
}

TEST(MatrixCopies, SectionsOfRandomMatrices) {
    Draws draws(2);
    const int rank = mpi_test::world_rank(), nprocs = mpi_test::world_size();
    mpi_test::Comparisons comparisons;
    for (int round = 0; round < mpi_test::oracle_cases(nprocs) / 2; ++round) {
        const int m = draws.from(0, 20), n = draws.from(0, 20);
        Matrix a(draws, rank, nprocs, std::max(m, 1), std::max(n, 1));
        Matrix b(draws, rank, nprocs, std::max(m, 1), std::max(n, 1));
        const int ia = draws.from(0, a.descriptor[2] - m), ja = draws.from(0, a.descriptor[3] - n);
        const int ib = draws.from(0, b.descriptor[2] - m), jb = draws.from(0, b.descriptor[3] - n);
        // Repeated, as a program that keeps its matrices does.
        for (int repeat = 1; repeat <= 2; ++repeat) {
            a.fill([&](int i, int j) { return value_at(i, j, repeat); });
            b.fill([](int, int) { return -3; });
            Matrix expected = b;
            expected.fill([&](int i, int j) {
                const bool inside = ib <= i && i < ib + m && jb <= j && j < jb + n;
                return inside ? value_at(i - ib + ia, j - jb + ja, repeat) : -3;
            });
            ASSERT_EQ(b.copy_from(a, m, n, ia + 1, ja + 1, ib + 1, jb + 1), DATAMOVER_SUCCESS)
                << datamover_error_message();
            comparisons.note(b.local == expected.local, "round " + std::to_string(round));
        }
    }
    comparisons.expect_all();
}

/// Whether element (i, j) of an m x n section, from 0, is in a trapezoid: ScaLAPACK's Users' Guide.
bool in_trapezoid(char uplo, char diag, int i, int j, int m, int n) {
    const int above = uplo == 'U' ? j + std::max(m - n, 0) - i : i + std::max(n - m, 0) - j;
    return diag == 'N' ? above >= 0 : above > 0;
}

TEST(MatrixCopies, TrapezoidsOfRandomMatrices) {
    Draws draws(7);
    const int rank = mpi_test::world_rank(), nprocs = mpi_test::world_size();
    mpi_test::Comparisons comparisons;
    for (int round = 0; round < mpi_test::oracle_cases(nprocs) / 4; ++round) {
        const int m = draws.from(0, 20), n = draws.from(0, 20);
        const char uplo = draws.from(0, 1) ? 'U' : 'L', diag = draws.from(0, 1) ? 'U' : 'N';
        Matrix a(draws, rank, nprocs, std::max(m, 1), std::max(n, 1));
        Matrix b(draws, rank, nprocs, std::max(m, 1), std::max(n, 1));
        const int ia = draws.from(0, a.descriptor[2] - m), ja = draws.from(0, a.descriptor[3] - n);
        const int ib = draws.from(0, b.descriptor[2] - m), jb = draws.from(0, b.descriptor[3] - n);
        a.fill([&](int i, int j) { return value_at(i, j, round); });
        b.fill([](int, int) { return -3; });
        Matrix expected = b;
        expected.fill([&](int i, int j) {
            const bool inside = ib <= i && i < ib + m && jb <= j && j < jb + n &&
                                in_trapezoid(uplo, diag, i - ib, j - jb, m, n);
            return inside ? value_at(i - ib + ia, j - jb + ja, round) : -3;
        });
        const datamover_matrix from = a.here(ia + 1, ja + 1), to = b.here(ib + 1, jb + 1);
        ASSERT_EQ(
            datamover_trapezoid_move(MPI_COMM_WORLD, 8, uplo, diag, m, n, &from, &to, nullptr),
            DATAMOVER_SUCCESS)
            << datamover_error_message();
        comparisons.note(b.local == expected.local, "round " + std::to_string(round));
    }
    comparisons.expect_all();
}

TEST(MatrixCopies, UnknownLettersAreRefusedByAllProcesses) {
    Draws draws(8);
    const int rank = mpi_test::world_rank(), nprocs = mpi_test::world_size();
    const Matrix a(draws, rank, nprocs, 4, 4);
    Matrix b(draws, rank, nprocs, 4, 4);
    const auto before = b.local;
    const datamover_matrix from = a.here(1, 1), to = b.here(1, 1);
    const bool last = rank == nprocs - 1;
    for (const auto& [uplo, diag] : {std::pair{'X', 'N'}, {'U', ' '}})
        EXPECT_EQ(datamover_trapezoid_move(MPI_COMM_WORLD, 8, last ? uplo : 'U', last ? diag : 'N',
                                           4, 4, &from, &to, nullptr),
                  DATAMOVER_INVALID_ARGUMENT);
    EXPECT_EQ(b.local, before);
}

TEST(MatrixCopies, ManyCallsInTurnsAndAlternatingMemoryOnOneProcess) {
    Draws draws(3);
    const int rank = mpi_test::world_rank(), nprocs = mpi_test::world_size();
    mpi_test::Comparisons comparisons;
    std::vector<Matrix> sources, targets;
    for (int i = 0; i < 10; ++i) {
        sources.emplace_back(draws, rank, nprocs, 12, 9);
        targets.emplace_back(draws, rank, nprocs, 12, 9);
    }
    for (int turn = 1; turn <= 40; ++turn) {
        Matrix& a = sources[static_cast<std::size_t>(draws.from(0, 9))];
        const auto i = static_cast<std::size_t>(draws.from(0, 9));
        Matrix& b = targets[i];
        // The last process may bring other memory than in the call before.
        Matrix other = b;
        Matrix& used = rank == nprocs - 1 && turn % 3 == 0 ? other : b;
        a.fill([&](int row, int column) { return value_at(row, column, turn); });
        Matrix expected = used;
        expected.fill([&](int row, int column) {
            return row < 12 && column < 9
                       ? value_at(row, column, turn)
                       : expected.local[static_cast<std::size_t>(expected.at(row, column))];
        });
        ASSERT_EQ(used.copy_from(a, 12, 9, 1, 1, 1, 1), DATAMOVER_SUCCESS)
            << datamover_error_message();
        comparisons.note(used.local == expected.local, "turn " + std::to_string(turn));
    }
    comparisons.expect_all();
}

TEST(MatrixCopies, NothingToCopyMovesNothing) {
    Draws draws(5);
    const int rank = mpi_test::world_rank(), nprocs = mpi_test::world_size();
    const Matrix a(draws, rank, nprocs, 4, 4);
    Matrix b(draws, rank, nprocs, 4, 4);
    const auto before = b.local;
    for (const auto& [m, n] : {std::pair{0, 4}, {4, 0}, {0, 0}})
        ASSERT_EQ(b.copy_from(a, m, n, 1, 1, 1, 1), DATAMOVER_SUCCESS) << datamover_error_message();
    EXPECT_EQ(b.local, before);
}

/// Every mover packs its messages, which is too large for a limit of 0.
TEST(MatrixCopies, AMoverBeyondTheLimitIsKeptWhileItIsTheLastUsed) {
    const int nprocs = mpi_test::world_size();
    if (nprocs == 1) GTEST_SKIP() << "one process needs no buffers";
    const datamover::Point shape{2 * nprocs, 8};
    const datamover::Layout rows = datamover::BlockCyclic(shape, "(block, *)", nprocs);
    const datamover::Layout columns = datamover::BlockCyclic(shape, "(*, block)", nprocs);
    const datamover::Array from(MPI_COMM_WORLD, rows, 8), to(MPI_COMM_WORLD, columns, 8);
    int bound = 0;
    const auto get = [&](std::int64_t key) {
        return datamover::cached_mover(MPI_COMM_WORLD, {key}, [&] {
            ++bound;
            datamover::MoverOptions options;
            options.transport = "p2p";
            return datamover::Mover(MPI_COMM_WORLD, datamover::redistribute(rows, columns), from,
                                    to, options);
        });
    };
    datamover::set_cache_limit({16, 0});
    get(1), get(1);
    EXPECT_EQ(bound, 1);
    get(2), get(1);
    EXPECT_EQ(bound, 3);
    datamover::set_cache_limit({});
}

TEST(MatrixCopies, AsManyMoversAreKeptAsTheLimitSaysUntilTheyAreDropped) {
    const int rank = mpi_test::world_rank(), nprocs = mpi_test::world_size();
    mpi_test::Draws draws(61);
    const Matrix a(draws, rank, nprocs, 4, 4);
    Matrix b(draws, rank, nprocs, 4, 4), c(draws, rank, nprocs, 4, 4);
    const auto planned = [&](Matrix& to) {
        const datamover_matrix from = a.here(1, 1), into = to.here(1, 1);
        datamover_matrix_outcome outcome{};
        EXPECT_EQ(datamover_matrix_move(MPI_COMM_WORLD, DATAMOVER_OPAQUE, 8, 4, 4, &from, &into, 0,
                                        nullptr, &outcome),
                  DATAMOVER_SUCCESS)
            << datamover_error_message();
        return outcome.planned;
    };
    datamover_matrix_cache_drop(MPI_COMM_WORLD);
    EXPECT_EQ(planned(b) + planned(c), 2);
    EXPECT_EQ(planned(b) + planned(c), 0);
    EXPECT_EQ(datamover_matrix_cache_drop(MPI_COMM_WORLD), DATAMOVER_SUCCESS);
    EXPECT_EQ(planned(b), 1);
    for (const auto& [movers, kept] : {std::pair{1, 1}, {0, 0}, {2, 2}}) {
        ASSERT_EQ(datamover_matrix_cache_limit(movers, 1 << 20), DATAMOVER_SUCCESS);
        datamover_matrix_cache_drop(MPI_COMM_WORLD);
        EXPECT_EQ(planned(b) + planned(c), 2);
        EXPECT_EQ(planned(c), kept >= 1 ? 0 : 1);
        EXPECT_EQ(planned(b), kept >= 2 ? 0 : 1);
    }
    EXPECT_EQ(datamover_matrix_cache_limit(65, 0), DATAMOVER_OUT_OF_RANGE);
    EXPECT_EQ(datamover_matrix_cache_limit(16, std::int64_t{256} << 20), DATAMOVER_SUCCESS);
}

/// A pair of matrices whose copy works, to be spoilt on one process or all.
struct Pair {
    Matrix a, b;
    int m = 4, n = 4, ia = 1, ja = 1, ib = 1, jb = 1;

    int copy() { return b.copy_from(a, m, n, ia, ja, ib, jb); }
};

TEST(MatrixCopies, BadArgumentsGiveTheSameErrorEverywhereAndMoveNothing) {
    const int rank = mpi_test::world_rank(), nprocs = mpi_test::world_size();
    const bool last = rank == nprocs - 1;
    struct Spoilt {
        int code;
        std::function<void(Pair&)> spoil;
    };
    const std::vector<Spoilt> cases = {
        {DATAMOVER_OUT_OF_RANGE, [](Pair& p) { p.ia = 0; }},
        {DATAMOVER_OUT_OF_RANGE, [](Pair& p) { p.jb = p.b.descriptor[3] - 2; }},
        {DATAMOVER_INVALID_ARGUMENT, [](Pair& p) { p.m = -1; }},
        {DATAMOVER_INVALID_ARGUMENT, [](Pair& p) { p.a.descriptor[4] = 0; }},
        {DATAMOVER_INVALID_ARGUMENT, [](Pair& p) { p.b.descriptor[6] = p.b.grid.nprow; }},
        {DATAMOVER_INVALID_ARGUMENT, [](Pair& p) { p.b.grid.npcol = 0; }},
        {DATAMOVER_UNSUPPORTED, [](Pair& p) { p.a.descriptor[0] = 2; }},
        {DATAMOVER_OUT_OF_RANGE, [&](Pair& p) { p.a.ranks[0] = nprocs; }},
        {DATAMOVER_INVALID_ARGUMENT, [](Pair& p) { p.b.descriptor[8] = 0; }},
        {DATAMOVER_INVALID_ARGUMENT,
         [&](Pair& p) {
             if (last) p.b.grid.nprow = -1;
         }},
    };
    std::vector<Spoilt> differing = {
        {DATAMOVER_MISMATCH,
         [&](Pair& p) {
             if (last) p.m = 3;
         }},
        {DATAMOVER_MISMATCH,
         [&](Pair& p) {
             if (last) p.ja = 2;
         }},
        {DATAMOVER_MISMATCH,
         [&](Pair& p) {
             if (last) ++p.a.descriptor[4];
         }},
        // Nothing to copy for one process alone: the others do not wait for it for ever.
        {DATAMOVER_MISMATCH,
         [&](Pair& p) {
             if (last) p.m = 0;
         }},
        {DATAMOVER_MISMATCH,
         [&](Pair& p) {
             if (!last) p.n = 0;
         }},
    };
    Draws draws(4);
    const auto check = [&](const Spoilt& spoilt) {
        Pair p{Matrix(draws, rank, nprocs, 4, 5), Matrix(draws, rank, nprocs, 4, 4)};
        p.a.fill([](int, int) { return 7; });
        const auto before = p.b.local;
        spoilt.spoil(p);
        p.a.grid.ranks = p.a.ranks.data();
        p.b.grid.ranks = p.b.ranks.data();
        EXPECT_EQ(p.copy(), spoilt.code) << datamover_error_message();
        EXPECT_GT(std::string(datamover_error_message()).size(), 10u);
        EXPECT_EQ(p.b.local, before);
    };
    for (const Spoilt& spoilt : cases) check(spoilt);
    if (nprocs > 1)
        for (const Spoilt& spoilt : differing) check(spoilt);
}

}  // namespace

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

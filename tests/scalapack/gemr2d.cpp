// SPDX-License-Identifier: BSD-3-Clause
// datamover_p?gemr2d: leaves the same bytes as ScaLAPACK's own p?gemr2d.
#include <mpi.h>

#include <array>
#include <complex>
#include <cstdint>
#include <vector>

#include "blacs.h"
#include "datamover/datamover.h"
#include "datamover/datamover_scalapack.h"
#include "mpi_test.hpp"

extern "C" {
void Cpigemr2d(int, int, int*, int, int, int*, int*, int, int, int*, int);
void Cpsgemr2d(int, int, float*, int, int, int*, float*, int, int, int*, int);
void Cpdgemr2d(int, int, double*, int, int, int*, double*, int, int, int*, int);
void Cpcgemr2d(int, int, void*, int, int, int*, void*, int, int, int*, int);
void Cpzgemr2d(int, int, void*, int, int, int*, void*, int, int, int*, int);
}

namespace {

using mpi_test::Draws;

/// A grid over random processes, in random order.
class Grid {
public:
    Grid(Draws& draws, int nprocs) {
        nprow_ = draws.from(1, nprocs);
        npcol_ = draws.from(1, nprocs / nprow_);
        ranks_ = draws.ranks(nprocs, nprow_ * npcol_);
        std::vector<int> map(ranks_.begin(), ranks_.end());
        Cblacs_get(0, 0, &context_);
        Cblacs_gridmap(&context_, map.data(), nprow_, nprow_, npcol_);
    }
    Grid(const Grid&) = delete;
    ~Grid() {
        if (context_ >= 0) Cblacs_gridexit(context_);
    }
    /// How many of `count` rows (columns) dealt in blocks this process has; 0 outside the grid. By
    /// counting, the Users' Guide's way.
    int local_rows(int count, int block, int first) const {
        return held(count, block, first, nprow_, place().row);
    }
    int local_columns(int count, int block, int first) const {
        return held(count, block, first, npcol_, place().column);
    }
    int nprow() const { return nprow_; }
    int npcol() const { return npcol_; }
    int context() const { return context_; }
    datamover_process_grid described() const { return {nprow_, npcol_, 1, ranks_.data()}; }

private:
    struct Place {
        int row, column;
    };
    Place place() const {
        int nprow, npcol, row = -1, column = -1;
        if (context_ >= 0) Cblacs_gridinfo(context_, &nprow, &npcol, &row, &column);
        return {row, column};
    }
    static int held(int count, int block, int first, int nprocs, int mine) {
        int sum = 0;
        for (int i = 0; i < count; ++i) sum += (first + i / block) % nprocs == mine;
        return sum;
    }

    int nprow_ = 1, npcol_ = 1, context_ = -1;
    std::vector<std::int64_t> ranks_;  ///< column-major, as gridmap's
};

/// A descriptor for at least m x n elements, and random bytes to hold any part of the matrix.
struct Matrix {
    std::array<int, 9> descriptor{};
    std::vector<char> bytes;

    Matrix(Draws& draws, std::mt19937& local, const Grid& grid, int least_m, int least_n,
           int elem_bytes) {
        const int m = std::max(1, least_m + draws.from(0, 6)),
                  n = std::max(1, least_n + draws.from(0, 6));
        const int mb = draws.from(1, m + 2), nb = draws.from(1, n + 2);
        const int rsrc = draws.from(0, grid.nprow() - 1), csrc = draws.from(0, grid.npcol() - 1);
        // As small as it may be, 0 where there are no rows, or larger; not the same everywhere.
        const int lld = grid.local_rows(m, mb, rsrc) + static_cast<int>(local() % 8 / 4 * 3);
        // Many programs leave the type unset.
        const int dtype = mpi_test::world_rank() % 2 == 0 ? 0x5a5a5a5a : 1;
        descriptor = {dtype, grid.context(), m, n, mb, nb, rsrc, csrc, lld};
        bytes.resize(static_cast<std::size_t>(lld * grid.local_columns(n, nb, csrc) * elem_bytes));
        for (char& byte : bytes) byte = static_cast<char>(local());
    }
    std::array<int, 9> descriptor_of_dense() const {
        auto entries = descriptor;
        entries[0] = 1;
        return entries;
    }
    /// Nothing but the missing context is told outside the grid.
    std::array<int, 9> descriptor_here() const {
        return descriptor[1] >= 0 ? descriptor : std::array<int, 9>{0, -1, 0, 0, 0, 0, 0, 0, 0};
    }
};

struct Section {
    int m, n, ia, ja, ib, jb;
};

/// ScaLAPACK's call and ours for one element type.
template <class Element, class Theirs, class Ours>
int both(Theirs&& theirs, Ours&& ours, const Section& s, Matrix& a, std::vector<char>& their_b,
         std::vector<char>& our_b, const Matrix& b, int context) {
    const auto at = [](std::vector<char>& bytes) {
        return reinterpret_cast<Element*>(bytes.data());
    };
    auto desca = a.descriptor_here(), descb = b.descriptor_here();
    theirs(s.m, s.n, at(a.bytes), s.ia, s.ja, desca.data(), at(their_b), s.ib, s.jb, descb.data(),
           context);
    return ours(s.m, s.n, at(a.bytes), s.ia, s.ja, desca.data(), at(our_b), s.ib, s.jb,
                descb.data(), context);
}

constexpr int type_count = 5;
constexpr std::array<int, type_count> type_bytes{4, 4, 8, 8, 16};

int both_of_type(int type, const Section& s, Matrix& a, std::vector<char>& their_b,
                 std::vector<char>& our_b, const Matrix& b, int context) {
    switch (type) {
        case 0:
            return both<int>(Cpigemr2d, datamover_pigemr2d, s, a, their_b, our_b, b, context);
        case 1:
            return both<float>(Cpsgemr2d, datamover_psgemr2d, s, a, their_b, our_b, b, context);
        case 2:
            return both<double>(Cpdgemr2d, datamover_pdgemr2d, s, a, their_b, our_b, b, context);
        case 3:
            return both<void>(Cpcgemr2d, datamover_pcgemr2d, s, a, their_b, our_b, b, context);
        default:
            return both<void>(Cpzgemr2d, datamover_pzgemr2d, s, a, their_b, our_b, b, context);
    }
}

/// A context that holds all processes, in the order of their ranks.
class EveryProcess {
public:
    EveryProcess() {
        Cblacs_get(0, 0, &context_);
        Cblacs_gridinit(&context_, "Row", 1, mpi_test::world_size());
    }
    ~EveryProcess() { Cblacs_gridexit(context_); }
    int context() const { return context_; }

private:
    int context_ = -1;
};

TEST(Gemr2dOracle, SameBytesAsScalapack) {
    Draws draws(5);
    std::mt19937 local(static_cast<unsigned>(mpi_test::world_rank()));
    const int nprocs = mpi_test::world_size();
    const EveryProcess every;
    mpi_test::Comparisons comparisons;
    for (int round = 0; round < mpi_test::oracle_cases(nprocs); ++round) {
        const int type = round % type_count,
                  elem_bytes = type_bytes[static_cast<std::size_t>(type)];
        const Grid grid_a(draws, nprocs), grid_b(draws, nprocs);
        Section s{draws.from(0, 25), draws.from(0, 25), 1, 1, 1, 1};
        Matrix a(draws, local, grid_a, s.m, s.n, elem_bytes);
        Matrix b(draws, local, grid_b, s.m, s.n, elem_bytes);
        s.ia += draws.from(0, a.descriptor[2] - s.m);
        s.ja += draws.from(0, a.descriptor[3] - s.n);
        s.ib += draws.from(0, b.descriptor[2] - s.m);
        s.jb += draws.from(0, b.descriptor[3] - s.n);
        auto theirs = b.bytes, ours = b.bytes, explicitly = b.bytes;
        ASSERT_EQ(both_of_type(type, s, a, theirs, ours, b, every.context()), DATAMOVER_SUCCESS)
            << datamover_error_message();
        comparisons.note(ours == theirs, "round " + std::to_string(round));

        const auto described_a = grid_a.described(), described_b = grid_b.described();
        const auto desca = a.descriptor_of_dense(), descb = b.descriptor_of_dense();
        ASSERT_EQ(datamover_gemr2d(MPI_COMM_WORLD, elem_bytes, s.m, s.n, a.bytes.data(), s.ia, s.ja,
                                   desca.data(), &described_a, explicitly.data(), s.ib, s.jb,
                                   descb.data(), &described_b),
                  DATAMOVER_SUCCESS)
            << datamover_error_message();
        comparisons.note(explicitly == theirs, "explicit grids, round " + std::to_string(round));
    }
    comparisons.expect_all();
}

TEST(Gemr2dOracle, RepeatedCallsMoveWhatIsThereThen) {
    Draws draws(6);
    std::mt19937 local(static_cast<unsigned>(mpi_test::world_rank()));
    const EveryProcess every;
    const Grid grid_a(draws, mpi_test::world_size()), grid_b(draws, mpi_test::world_size());
    Matrix a(draws, local, grid_a, 20, 20, 8);
    const Matrix b(draws, local, grid_b, 20, 20, 8);
    auto theirs = b.bytes, ours = b.bytes;
    for (int step = 0; step < 10; ++step) {
        for (char& byte : a.bytes) byte = static_cast<char>(local());
        const Section s{20 - step % 3, 18, 1, 2, 1, 1 + step % 2};
        ASSERT_EQ(both_of_type(2, s, a, theirs, ours, b, every.context()), DATAMOVER_SUCCESS);
        ASSERT_TRUE(mpi_test::holds_everywhere(ours == theirs)) << "step " << step;
    }
}

TEST(Gemr2dOracle, NothingToCopyIsNothingToLookAt) {
    Draws draws(8);
    std::mt19937 local(0);
    const EveryProcess every;
    const Grid grid(draws, mpi_test::world_size());
    Matrix a(draws, local, grid, 5, 5, 8), b(draws, local, grid, 5, 5, 8);
    const auto before = b.bytes;
    auto theirs = b.bytes, ours = b.bytes;
    a.descriptor[4] = 0;
    for (const Section& s : {Section{0, 5, -1, 99, 0, 0}, Section{5, 0, 1, 1, 1, 1}})
        for (const int context : {every.context(), -1}) {
            EXPECT_EQ(both_of_type(2, s, a, theirs, ours, b, context), DATAMOVER_SUCCESS)
                << datamover_error_message();
            EXPECT_TRUE(theirs == before && ours == before);
        }
}

/// Contexts come and go; those of the same processes in another order are others.
TEST(Gemr2dOracle, ContextsMadeAnew) {
    Draws draws(9);
    std::mt19937 local(static_cast<unsigned>(mpi_test::world_rank()));
    const int nprocs = mpi_test::world_size();
    mpi_test::Comparisons comparisons;
    for (int round = 0; round < 30; ++round) {
        int every = -1;
        auto order = draws.ranks(nprocs, nprocs);
        if (round % 3 == 0) std::sort(order.begin(), order.end());
        std::vector<int> map(order.begin(), order.end());
        Cblacs_get(0, 0, &every);
        Cblacs_gridmap(&every, map.data(), 1, 1, nprocs);
        const Grid grid_a(draws, nprocs), grid_b(draws, nprocs);
        Matrix a(draws, local, grid_a, 9, 7, 8);
        const Matrix b(draws, local, grid_b, 9, 7, 8);
        auto theirs = b.bytes, ours = b.bytes;
        const Section s{9, 7, 1, 1, 1, 1};
        for (int repeat = 0; repeat < 2; ++repeat) {
            for (char& byte : a.bytes) byte = static_cast<char>(local());
            ASSERT_EQ(both_of_type(2, s, a, theirs, ours, b, every), DATAMOVER_SUCCESS)
                << datamover_error_message();
            comparisons.note(ours == theirs, "round " + std::to_string(round));
        }
        Cblacs_gridexit(every);
    }
    comparisons.expect_all();
}

TEST(Gemr2dOracle, BadArgumentsGiveTheSameErrorEverywhere) {
    Draws draws(7);
    std::mt19937 local(0);
    const int nprocs = mpi_test::world_size();
    const EveryProcess every;
    const Grid grid(draws, nprocs);
    Matrix a(draws, local, grid, 5, 5, 8), b(draws, local, grid, 5, 5, 8);
    const auto before = b.bytes;
    const auto copy = [&](int m, int ia, int context) {
        const auto desca = a.descriptor_here(), descb = b.descriptor_here();
        return datamover_pdgemr2d(m, 5, reinterpret_cast<double*>(a.bytes.data()), ia, 1,
                                  desca.data(), reinterpret_cast<double*>(b.bytes.data()), 1, 1,
                                  descb.data(), context);
    };
    const auto expect = [&](int code, int wanted_code, int wanted_argument) {
        EXPECT_EQ(code, wanted_code) << datamover_error_message();
        EXPECT_EQ(datamover_gemr2d_argument(), wanted_argument) << datamover_error_message();
    };
    const bool last = mpi_test::world_rank() == nprocs - 1;
    expect(copy(5, 1, every.context()), DATAMOVER_SUCCESS, 0);
    b.bytes = before;
    expect(copy(5, 0, every.context()), DATAMOVER_OUT_OF_RANGE, 4);
    expect(copy(-5, 1, every.context()), DATAMOVER_INVALID_ARGUMENT, 1);
    expect(copy(5, 1, -1), DATAMOVER_INVALID_ARGUMENT, 11);
    if (nprocs > 1) {
        expect(copy(last ? 4 : 5, 1, every.context()), DATAMOVER_MISMATCH, 1);
        // Nothing to copy for one process alone: the others do not wait for it for ever.
        expect(copy(last ? 0 : 5, 1, every.context()), DATAMOVER_MISMATCH, 1);
        expect(copy(last ? 5 : 0, 1, every.context()), DATAMOVER_MISMATCH, 1);
    }
    const int rows_of_a = a.descriptor[8];
    a.descriptor[8] = -1;
    expect(copy(5, 1, every.context()), DATAMOVER_INVALID_ARGUMENT, 609);
    a.descriptor[8] = rows_of_a;
    b.descriptor[6] = grid.nprow();
    expect(copy(5, 1, every.context()), DATAMOVER_INVALID_ARGUMENT, 1007);
    b.descriptor[6] = 0;
    a.descriptor[1] = -1;
    expect(copy(5, 1, every.context()), DATAMOVER_INVALID_ARGUMENT, 602);
    EXPECT_EQ(b.bytes, before);
}

}  // namespace

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

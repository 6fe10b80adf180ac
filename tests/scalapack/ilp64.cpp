// SPDX-License-Identifier: BSD-3-Clause
// 64-bit integers: the Fortran names accept the integers of a ScaLAPACK that was built with them.
// Such a library is not available, so this test includes a BLACS stub with 64-bit integers.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mpi_test.hpp"

using Int = std::int64_t;

namespace {

/// Context c is a grid of c rows of all processes but those that do not fit, row by row.
struct Grid {
    Int nprow, npcol, row = -1, column = -1;

    explicit Grid(Int context) : nprow(context), npcol(mpi_test::world_size() / context) {
        const Int rank = mpi_test::world_rank();
        if (rank < nprow * npcol) row = rank / npcol, column = rank % npcol;
    }
    bool in_grid() const { return row >= 0; }
};

struct Complaint {
    Int context, argument;
    std::string routine;
};
std::vector<Complaint> complaints;

}  // namespace

extern "C" {

void Cblacs_get(Int context, Int, Int* value) {
    *value = context;
}
void Cblacs_gridinfo(Int context, Int* nprow, Int* npcol, Int* row, Int* column) {
    const Grid grid(context);
    *nprow = grid.nprow, *npcol = grid.npcol;
    *row = grid.row, *column = grid.column;
}
MPI_Comm Cblacs2sys_handle(Int context) {
    static std::vector<MPI_Comm> made(64, MPI_COMM_NULL);
    MPI_Comm& comm = made.at(static_cast<std::size_t>(context));
    if (comm == MPI_COMM_NULL)
        MPI_Comm_split(MPI_COMM_WORLD, Grid(context).in_grid() ? 0 : MPI_UNDEFINED, 0, &comm);
    return comm;
}
void pxerbla_(const Int* context, const char* routine, const Int* argument, std::size_t length) {
    complaints.push_back({*context, *argument, {routine, length}});
}

void pdgemr2d_(const Int* m, const Int* n, const double* a, const Int* ia, const Int* ja,
               const Int* desca, double* b, const Int* ib, const Int* jb, const Int* descb,
               const Int* ictxt);
void pigemr2d_(const Int* m, const Int* n, const Int* a, const Int* ia, const Int* ja,
               const Int* desca, Int* b, const Int* ib, const Int* jb, const Int* descb,
               const Int* ictxt);
void pdtrmr2d_(const char* uplo, const char* diag, const Int* m, const Int* n, const double* a,
               const Int* ia, const Int* ja, const Int* desca, double* b, const Int* ib,
               const Int* jb, const Int* descb, const Int* ictxt);
void pdtran_(const Int* m, const Int* n, const double* alpha, const double* a, const Int* ia,
             const Int* ja, const Int* desca, const double* beta, double* c, const Int* ic,
             const Int* jc, const Int* descc);
}

namespace {

/// A matrix of 9 x 6 elements in blocks of a size, with what each process holds of it.
template <class Element>
struct Matrix {
    static constexpr Int rows = 9, columns = 6, lld = 9;
    Grid grid;
    Int block;
    std::array<Int, 9> descriptor;
    std::vector<Element> values = std::vector<Element>(lld * columns, Element(-1));

    Matrix(Int context, Int block_size)
        : grid(context),
          block(block_size),
          descriptor{1, context, rows, columns, block, block, 0, 0, lld} {}

    /// Calls visit(i, j, element) for what is held here.
    template <class Visit>
    void for_each(Visit&& visit) {
        for (Int i = 0; i < rows; ++i)
            for (Int j = 0; j < columns; ++j)
                if (i / block % grid.nprow == grid.row && j / block % grid.npcol == grid.column)
                    visit(i, j,
                          values[static_cast<std::size_t>(
                              i / (block * grid.nprow) * block + i % block +
                              (j / (block * grid.npcol) * block + j % block) * lld)]);
    }
    void number() {
        for_each([](Int i, Int j, Element& e) { e = static_cast<Element>(100 * i + j); });
    }
};

const Int one = 1, rows = 9, columns = 6, context = 1;

template <class Element, class Copy>
void compare(Copy&& copy, double (*expected)(Int i, Int j), const std::string& name) {
    mpi_test::Comparisons comparisons;
    for (const Int grid_rows : {Int{1}, Int{mpi_test::world_size()}}) {
        Matrix<Element> a(context, 2), b(grid_rows, 3);
        a.number();
        copy(a, b);
        b.for_each([&](Int i, Int j, Element e) {
            comparisons.note(e == static_cast<Element>(expected(i, j)), name);
        });
    }
    comparisons.expect_all();
}

double itself(Int i, Int j) {
    return static_cast<double>(100 * i + j);
}

TEST(Ilp64, SectionsArrive) {
    compare<double>(
        [](auto& a, auto& b) {
            pdgemr2d_(&rows, &columns, a.values.data(), &one, &one, a.descriptor.data(),
                      b.values.data(), &one, &one, b.descriptor.data(), &context);
        },
        itself, "pdgemr2d");
    compare<Int>(  // integers have 64 bits too
        [](auto& a, auto& b) {
            pigemr2d_(&rows, &columns, a.values.data(), &one, &one, a.descriptor.data(),
                      b.values.data(), &one, &one, b.descriptor.data(), &context);
        },
        itself, "pigemr2d");
    EXPECT_TRUE(complaints.empty());
}

TEST(Ilp64, TrapezoidsArrive) {
    compare<double>(
        [](auto& a, auto& b) {
            pdtrmr2d_("L", "N", &rows, &columns, a.values.data(), &one, &one, a.descriptor.data(),
                      b.values.data(), &one, &one, b.descriptor.data(), &context);
        },
        [](Int i, Int j) { return j <= i ? itself(i, j) : -1.0; }, "pdtrmr2d");
    EXPECT_TRUE(complaints.empty());
}

TEST(Ilp64, TransposesArrive) {
    const Int six = 6;
    const double alpha = 2, beta = 0;
    Matrix<double> a(context, 2), c(context, 2);
    a.number();
    pdtran_(&six, &six, &alpha, a.values.data(), &one, &one, a.descriptor.data(), &beta,
            c.values.data(), &one, &one, c.descriptor.data());
    mpi_test::Comparisons comparisons;
    c.for_each([&](Int i, Int j, double e) {
        comparisons.note(e == (i < 6 ? 2 * itself(j, i) : -1.0), "pdtran");
    });
    comparisons.expect_all();
    EXPECT_TRUE(complaints.empty());
}

TEST(Ilp64, NumbersBeyond32BitsAreRefusedWithTheArgumentsPosition) {
    complaints.clear();
    Matrix<double> a(context, 2), b(context, 3);
    a.descriptor[2] = (Int{1} << 32) + rows;  // cut off it would fit
    pdgemr2d_(&rows, &columns, a.values.data(), &one, &one, a.descriptor.data(), b.values.data(),
              &one, &one, b.descriptor.data(), &context);
    ASSERT_EQ(complaints.size(), 1u);
    EXPECT_EQ(complaints[0].argument, 603);
    EXPECT_EQ(complaints[0].context, context);
    EXPECT_EQ(complaints[0].routine, "PDGEMR2D");
}

}  // namespace

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of ScaLAPACK on the same redistributions: p?gemr2d, and p?tran for transposes. It is
// linked against a ScaLAPACK and the MPI that it was built for, not against datamover; the harness
// compiles it if they are installed.
// Arguments: the file of cases, seconds per case.
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "process_contest.hpp"
#include "redistribute_case.hpp"

extern "C" {
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridexit(int context);
void Cpdgemr2d(int m, int n, double* a, int ia, int ja, int* desca, double* b, int ib, int jb,
               int* descb, int context);
void pdtran_(const int* m, const int* n, const double* alpha, const double* a, const int* ia,
             const int* ja, const int* desca, const double* beta, double* c, const int* ic,
             const int* jc, const int* descc);
}

namespace {

using bench::Case;
using bench::Side;

/// A process grid of ScaLAPACK's; exists on the processes inside it.
class Grid {
public:
    Grid(std::int64_t rows, std::int64_t columns) {
        Cblacs_get(0, 0, &context_);
        Cblacs_gridinit(&context_, "Row", static_cast<int>(rows), static_cast<int>(columns));
    }
    ~Grid() {
        if (context_ >= 0) Cblacs_gridexit(context_);
    }
    Grid(const Grid&) = delete;
    Grid& operator=(const Grid&) = delete;
    int context() const { return context_; }

private:
    int context_ = -1;
};

std::vector<int> descriptor(const Side& side, int rank, const Grid& grid) {
    const auto number = [](std::int64_t v) { return static_cast<int>(v); };
    const std::int64_t rows = std::max<std::int64_t>(1, side.local_shape(rank)[0]);
    return {1,
            rank < side.processes() ? grid.context() : -1,
            number(side.shape[0]),
            number(side.shape[1]),
            number(side.block[0]),
            number(side.block[1]),
            number(side.first_process[0]),
            number(side.first_process[1]),
            number(rows)};
}

bool fits(const Case& c) {
    return c.column_major && c.source.dims() == 2;
}

/// What p?tran asks for: one grid, and blocks of A that are those of C transposed.
bool fits_tran(const Case& c) {
    return c.axes[0] == 1 && c.source.grid == c.destination.grid &&
           c.source.block[0] == c.destination.block[1] &&
           c.source.block[1] == c.destination.block[0];
}

void run_case(const Case& c, double seconds) {
    const MPI_Comm comm = MPI_COMM_WORLD;
    int rank = 0, size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const bool transposed = c.axes[0] == 1;
    if (!fits(c) || (transposed && !fits_tran(c))) return;

    const Grid all(1, size), source_grid(c.source.grid[0], c.source.grid[1]);
    const Grid destination_grid(c.destination.grid[0], c.destination.grid[1]);
    std::vector<int> desca = descriptor(c.source, rank, source_grid);
    std::vector<int> descb =
        descriptor(c.destination, rank, transposed ? source_grid : destination_grid);
    std::vector<double> a(static_cast<std::size_t>(c.source.local_elems(rank)) + 1);
    std::vector<double> b(static_cast<std::size_t>(c.destination.local_elems(rank)) + 1);
    bench::fill_source(c, rank, a.data());

    const int m = static_cast<int>(c.extent[0]), n = static_cast<int>(c.extent[1]);
    const int ia = static_cast<int>(c.source.section_begin[0]) + 1;
    const int ja = static_cast<int>(c.source.section_begin[1]) + 1;
    const int ib = static_cast<int>(c.destination.section_begin[0]) + 1;
    const int jb = static_cast<int>(c.destination.section_begin[1]) + 1;
    const bench::ProcessContest::Check check{
        [&] { bench::clear_destination(c, rank, b.data()); },
        [&] { return bench::destination_right(c, rank, b.data()); }};
    bench::ProcessContest contest(comm, c.name, "move", c.bytes(), seconds);
    if (transposed) {
        contest.add(
            "pdtran",
            [&] {
                const double one = 1, zero = 0;
                if (rank < c.source.processes())
                    pdtran_(&n, &m, &one, a.data(), &ia, &ja, desca.data(), &zero, b.data(), &ib,
                            &jb, descb.data());
            },
            check);
    } else {
        contest.add(
            "pdgemr2d",
            [&] {
                Cpdgemr2d(m, n, a.data(), ia, ja, desca.data(), b.data(), ib, jb, descb.data(),
                          all.context());
            },
            check);
    }
    contest.run();
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        bench::print_header(MPI_COMM_WORLD);
        const double seconds = argc > 2 ? std::atof(argv[2]) : 1;
        for (const Case& c : bench::read_cases(argc > 1 ? argv[1] : "")) run_case(c, seconds);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "pdgemr2d: %s\n", e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}

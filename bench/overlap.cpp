// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of overlap: the part of a move that is hidden by arithmetic, with and without a
// progress thread.
//
// overlap SECONDS ROWS...: for each number of rows, the transpose of a square matrix of doubles
// between blocks of rows, and arithmetic that stays in the cache and takes one and a half times as
// long as the transpose.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "datamover/datamover.hpp"
#include "process_contest.hpp"

namespace {

using namespace datamover;

/// Arithmetic on memory of the first cache; how long it takes is set once.
class Arithmetic {
public:
    /// Takes about so long on the slowest process. Collective.
    void take_seconds(double seconds) {
        constexpr std::int64_t sample = 5000;
        sweeps_ = sample;
        double taken = std::numeric_limits<double>::max();
        for (int i = 0; i < 10; ++i) {
            const double start = MPI_Wtime();
            (*this)();
            taken = std::min(taken, MPI_Wtime() - start);
        }
        MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        sweeps_ = std::max<std::int64_t>(
            1, static_cast<std::int64_t>(static_cast<double>(sample) * seconds / taken));
    }

    /// Never inlined: the compiler makes loops of another speed of it from place to place.
    [[gnu::noinline]] void operator()() {
        for (std::int64_t i = 0; i < sweeps_; ++i) {
            for (double& v : values_) v = v * 0.999 + 0.001;
            // The compiler may not leave out or join sweeps.
            asm volatile("" : : "r"(values_.data()) : "memory");
        }
    }

private:
    std::array<double, 1024> values_{};
    std::int64_t sweeps_ = 1;
};

class Transpose {
public:
    explicit Transpose(std::int64_t n)
        : n_(n),
          rows_({n, n}, "(block, *)", size()),
          source_(MPI_COMM_WORLD, rows_, sizeof(double)),
          destination_(MPI_COMM_WORLD, rows_, sizeof(double)),
          mover_(MPI_COMM_WORLD, redistribute(rows_, rows_, {1, 0}), source_, destination_) {
        visit(source_, [&](double& value, std::int64_t i, std::int64_t j) {
            value = static_cast<double>(i * n_ + j);
        });
    }

    Mover& mover() { return mover_; }
    std::int64_t bytes() const { return n_ * n_ * std::int64_t{sizeof(double)}; }

    bench::ProcessContest::Check check() {
        return {[&] { visit(destination_, [](double& v, std::int64_t, std::int64_t) { v = -1; }); },
                [&] {
                    bool right = true;
                    visit(destination_, [&](double& v, std::int64_t i, std::int64_t j) {
                        right = right && v == static_cast<double>(j * n_ + i);
                    });
                    return right;
                }};
    }

    /// Seconds of a move, warm, on the slowest process. Collective.
    double seconds() {
        mover_();
        MPI_Barrier(MPI_COMM_WORLD);
        double taken = -MPI_Wtime();
        for (int i = 0; i < rounds; ++i) mover_();
        taken += MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        return taken / rounds;
    }

private:
    static constexpr int rounds = 5;

    static std::int64_t size() {
        int size = 1;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        return size;
    }

    /// Calls visit(value, i, j) for the elements here, by global index.
    template <class Visit>
    void visit(const Array& array, Visit&& visit) const {
        const auto held = rows_.global_indices(array.rank());
        double* value = array.local<double>().data();
        for (const std::int64_t i : held[0])
            for (const std::int64_t j : held[1]) visit(*value++, i, j);
    }

    std::int64_t n_;
    BlockCyclic rows_;
    Array source_, destination_;
    Mover mover_;
};

void run_case(std::int64_t n, double seconds) {
    Transpose transpose(n);
    Arithmetic arithmetic;
    constexpr double arithmetic_per_move = 1.5;
    arithmetic.take_seconds(arithmetic_per_move * transpose.seconds());
    Mover& mover = transpose.mover();
    const auto overlapped = [&] {
        mover.start();
        arithmetic();
        mover.wait();
    };
    const bench::ProcessContest::Check moved = transpose.check(),
                                       nothing{[] {}, [] { return true; }};
    const auto contest = [&] {
        return bench::ProcessContest(MPI_COMM_WORLD, std::to_string(n), "step", transpose.bytes(),
                                     seconds / 2);
    };
    bench::ProcessContest alone = contest();
    alone.add("arithmetic", [&] { arithmetic(); }, nothing);
    alone.add("move", [&] { mover(); }, moved);
    alone.add(
        "in_turn",
        [&] {
            mover();
            arithmetic();
        },
        moved);
    alone.add("overlap", overlapped, moved);
    alone.run();
    // Kept as a program keeps it: a thread that has just been made may begin on the core that
    // computes.
    const ProgressThread thread;
    bench::ProcessContest with_thread = contest();
    with_thread.add("overlap:thread", overlapped, moved);
    with_thread.run();
}

}  // namespace

int main(int argc, char** argv) {
    return bench::run_program(
        argc, argv, "overlap",
        [&] {
            const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
            for (int i = 2; i < argc; ++i) run_case(std::atoll(argv[i]), seconds);
        },
        MPI_THREAD_MULTIPLE);
}

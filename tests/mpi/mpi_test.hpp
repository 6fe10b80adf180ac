// SPDX-License-Identifier: BSD-3-Clause
// GoogleTest on several processes: random cases that all processes draw alike, and one verdict.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace mpi_test {

inline int environment_number(const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text ? std::atoi(text) : otherwise;
}

/// Begins the next step of a test. A step that takes longer than a minute, as those of all
/// processes do when one has left them, ends the program by a signal.
inline void begin_step() {
    constexpr unsigned most_seconds = 70;  // more than tests give the library
    alarm(most_seconds);
}

/// How many random cases to draw, relative to the usual number (1 in `make test`).
inline int case_factor() {
    return environment_number("DATAMOVER_TEST_CASES", 1);
}

/// How many random cases a comparison with an oracle draws: about 1000 over all runs of `make
/// test`, more on few processes than on many, where they take longer; a hundred times as many in
/// `make test-long`.
inline int oracle_cases(int processes) {
    const int usual = processes == 1   ? 300
                      : processes == 2 ? 200
                      : processes == 3 ? 150
                      : processes == 4 ? 130
                                       : 60;
    return case_factor() == 1 ? usual : usual * 5 * case_factor();
}

/// Draws that are the same on all processes; DATAMOVER_TEST_SEED gives others.
class Draws {
public:
    explicit Draws(unsigned test)
        : random_(static_cast<unsigned>(environment_number("DATAMOVER_TEST_SEED", 0)) * 1000u +
                  test) {}
    int from(int lo, int hi) {
        begin_step();
        return std::uniform_int_distribution<int>(lo, hi)(random_);
    }
    bool one_in(int n) { return from(1, n) == 1; }
    /// `count` different numbers of 0 … n-1, in any order.
    std::vector<std::int64_t> ranks(int n, int count) {
        std::vector<std::int64_t> all(static_cast<std::size_t>(n));
        for (int i = 0; i < n; ++i) all[static_cast<std::size_t>(i)] = i;
        std::shuffle(all.begin(), all.end(), random_);
        all.resize(static_cast<std::size_t>(count));
        return all;
    }

private:
    std::mt19937 random_;
};

inline int world_rank() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

inline int world_size() {
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

/// A communicator of its own for one test, or for one thread.
class OwnComm {
public:
    OwnComm() {
        begin_step();
        MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    }
    ~OwnComm() { MPI_Comm_free(&comm_); }
    OwnComm(const OwnComm&) = delete;
    OwnComm& operator=(const OwnComm&) = delete;
    operator MPI_Comm() const { return comm_; }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

/// Whether something holds on all processes, so that all leave a test together.
inline bool holds_everywhere(bool here) {
    begin_step();
    int mine = here ? 1 : 0, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all == 1;
}

class EachTestIsAStep : public ::testing::EmptyTestEventListener {
    void OnTestStart(const ::testing::TestInfo&) override { begin_step(); }
    void OnTestEnd(const ::testing::TestInfo&) override { begin_step(); }
};

/// Prints what failed, and on which process.
class FailurePrinter : public ::testing::EmptyTestEventListener {
    void OnTestPartResult(const ::testing::TestPartResult& result) override {
        if (!result.failed()) return;
        const std::string place = result.file_name() ? result.file_name() : "";
        std::cerr << "process " << world_rank() << ", " + place + ":" << result.line_number()
                  << ": " << result.summary() << std::endl;
    }
};

/// Finds out at the end of a test whether all comparisons held on all processes, so that one does
/// not cost a reduction. Notes the first here that did not.
class Comparisons {
public:
    void note(bool holds, const std::string& what) {
        begin_step();
        if (!holds && failed_.empty()) failed_ = what;
    }
    void expect_all() const {
        EXPECT_TRUE(failed_.empty()) << "on process " << world_rank() << ": " << failed_;
        EXPECT_TRUE(holds_everywhere(failed_.empty()));
    }

private:
    std::string failed_;
};

/// Runs all tests; process 0 alone reports its successes. The exit code is not 0 where any failed.
inline int run(int argc, char** argv, int thread_level = MPI_THREAD_SINGLE) {
    MPI_Init_thread(&argc, &argv, thread_level, &thread_level);
    ::testing::InitGoogleTest(&argc, argv);
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    listeners.Append(new EachTestIsAStep);
    if (world_rank() != 0) {
        delete listeners.Release(listeners.default_result_printer());
        listeners.Append(new FailurePrinter);
    }
    const bool passed = RUN_ALL_TESTS() == 0;
    const bool all_passed = holds_everywhere(passed);
    MPI_Finalize();
    return all_passed ? 0 : 1;
}

}  // namespace mpi_test

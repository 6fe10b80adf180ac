// SPDX-License-Identifier: BSD-3-Clause
// Threads of one process: the progress thread and several moving threads do not disturb each other.
// `make test-long` builds this program with the thread sanitizer, which checks every access.
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "datamover/datamover.hpp"
#include "mpi_test.hpp"
#include "repeated_moves.hpp"

namespace {

using mpi_test::arithmetic, mpi_test::elems_per_process, mpi_test::RowsToColumns, mpi_test::steps;

bool crosses_nodes() {
    const int node = mpi_test::environment_number("DATAMOVER_NODE_SIZE", 0);
    return node > 0 && node < mpi_test::world_size();
}

class Threads : public ::testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        const bool within_a_node = GetParam() == "read" || GetParam() == "staged";
        if (within_a_node && crosses_nodes()) GTEST_SKIP() << "other nodes are out of its reach";
    }
    datamover::MoverOptions options() const {
        datamover::MoverOptions chosen;
        chosen.transport = GetParam();
        return chosen;
    }
};

TEST_P(Threads, TheProgressThreadMovesWhileTheProgramComputes) {
    const mpi_test::OwnComm comm;
    RowsToColumns moved(comm, options());
    const datamover::ProgressThread thread;
    mpi_test::Comparisons comparisons;
    for (int step = 0; step < steps(); ++step) {
        moved.fill(step);
        moved.start();
        EXPECT_GT(arithmetic(), 0.0);
        if (step % 3 != 0)
            moved.wait();
        else
            while (!moved.test()) std::this_thread::yield();
        comparisons.note(moved.arrived(step), "step " + std::to_string(step));
    }
    comparisons.expect_all();
}

TEST_P(Threads, AProgressThreadComesAndGoesInFlight) {
    const mpi_test::OwnComm comm;
    RowsToColumns moved(comm, options());
    mpi_test::Comparisons comparisons;
    std::unique_ptr<datamover::ProgressThread> thread;
    for (int step = 0; step < steps(); ++step) {
        moved.fill(step);
        if (step % 3 == 0) thread = std::make_unique<datamover::ProgressThread>();
        moved.start();
        if (step % 3 == 1) thread.reset();
        moved.wait();
        comparisons.note(moved.arrived(step), "step " + std::to_string(step));
    }
    comparisons.expect_all();
}

TEST_P(Threads, TwoThreadsAndTheProgressThreadMoveAtOnce) {
    const mpi_test::OwnComm first, second;
    RowsToColumns movers[] = {{first, options()}, {second, options()}};
    const datamover::ProgressThread progress;
    mpi_test::Comparisons comparisons[2];
    const auto work = [&](std::size_t which) {
        for (int step = 0; step < steps(); ++step) {
            const std::int64_t value = 1000 * step + static_cast<std::int64_t>(which);
            movers[which].fill(value);
            movers[which].start();
            movers[which].wait();
            comparisons[which].note(movers[which].arrived(value), "step " + std::to_string(step));
        }
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    for (const auto& c : comparisons) c.expect_all();
}

TEST_P(Threads, SeveralThreadsWaitForOneMover) {
    const mpi_test::OwnComm comm;
    RowsToColumns moved(comm, options());
    mpi_test::Comparisons comparisons;
    const auto wait = [&] {
        try {
            moved.wait();
        } catch (const datamover::Error& e) {
            // Another thread was through before this one began to wait.
            if (e.code() != datamover::ErrorCode::invalid_state) throw;
        }
    };
    for (int step = 0; step < steps(); ++step) {
        moved.fill(step);
        moved.start();
        std::thread others[] = {std::thread(wait), std::thread(wait)};
        wait();
        for (std::thread& other : others) other.join();
        comparisons.note(moved.arrived(step), "step " + std::to_string(step));
    }
    comparisons.expect_all();
    EXPECT_EQ(moved.rounds(), steps());
}

/// The progress thread begins their operations when it likes: between their starts here, behind
/// them on another process.
TEST(ThreadsAndTickets, CollectiveMoversAreInFlightTogether) {
    const mpi_test::OwnComm comm;
    datamover::MoverOptions options;
    options.transport = "collective";
    RowsToColumns movers[] = {{comm, options}, {comm, options}, {comm, options}};
    const datamover::ProgressThread progress;
    mpi_test::Comparisons comparisons;
    for (int step = 0; step < steps(); ++step) {
        for (int i = 0; i < 3; ++i) movers[i].fill(step + 1000 * i);
        for (RowsToColumns& mover : movers) {
            mover.start();
            if ((mpi_test::world_rank() + step) % 2 == 0) {
                EXPECT_GT(arithmetic(), 0.0);
            }
        }
        for (int i = 0; i < 3; ++i) movers[(i + mpi_test::world_rank()) % 3].wait();
        for (int i = 0; i < 3; ++i)
            comparisons.note(movers[i].arrived(step + 1000 * i), "step " + std::to_string(step));
    }
    comparisons.expect_all();
}

/// Of a start and a rebind in two threads one is refused, whichever comes first. The rebind of
/// process 0 waits for the others, which come when starts were tried.
TEST(ThreadsAndChanges, AStartBesideARebindIsRefused) {
    const mpi_test::OwnComm comm, signals;
    const std::int64_t nprocs = mpi_test::world_size();
    const datamover::BlockCyclic layout({elems_per_process * nprocs}, "(block)", nprocs);
    const datamover::Array from(comm, layout, 8), to(comm, layout, 8);
    datamover::Mover mover(comm, datamover::redistribute(layout, layout), from, to);
    const auto is_refused = [](const auto& call) {
        try {
            call();
            return false;
        } catch (const datamover::Error& e) {
            EXPECT_EQ(e.code(), datamover::ErrorCode::invalid_state) << e.what();
            return true;
        }
    };
    std::atomic<bool> began = false;
    bool rebind_refused = false, start_refused = false;
    const auto rebind = [&] {
        began = true;
        rebind_refused = is_refused([&] { mover.rebind(from.part(), to.part()); });
    };
    if (mpi_test::world_rank() == 0 && nprocs > 1) {
        std::thread other(rebind);
        while (!began) std::this_thread::yield();
        for (int i = 0; i < 10000 && !start_refused; ++i) {
            std::this_thread::yield();
            start_refused = is_refused([&] { mover(60.0); });
        }
        MPI_Barrier(signals);
        other.join();
        EXPECT_TRUE(start_refused || rebind_refused);
    } else {
        MPI_Barrier(signals);
        rebind();
    }
    EXPECT_FALSE(is_refused([&] { mover(60.0); }));
    mover.close();
    EXPECT_TRUE(is_refused([&] { mover.start(); }));
    EXPECT_NO_THROW(mover.close());
}

TEST(ThreadsAndElements, TheProgressThreadCarriesAMigration) {
    const mpi_test::OwnComm comm;
    const std::int64_t nprocs = mpi_test::world_size(), rank = mpi_test::world_rank();
    std::vector<std::int32_t> ranks;
    for (std::int64_t i = 0; i < 50 * nprocs; ++i)
        ranks.push_back(static_cast<std::int32_t>(i % nprocs));
    datamover::TargetList targets;
    targets.elems = 50 * nprocs;
    targets.data = ranks.data();
    datamover::Migration migration(comm, targets);
    const datamover::ProgressThread thread;
    mpi_test::Comparisons comparisons;
    std::vector<std::int64_t> mine(ranks.size());
    for (int step = 0; step < steps(); ++step) {
        std::iota(mine.begin(), mine.end(), 1000 * rank + step);
        const datamover::ElementColumn column{mine.data(), sizeof(std::int64_t)};
        const auto results = migration.start({&column, 1});
        EXPECT_GT(arithmetic(), 0.0);
        migration.wait(60.0);
        // From each process in turn its elements for this one, in their order.
        const auto* arrived = reinterpret_cast<const std::int64_t*>(results.front().data);
        bool right = migration.received() == 50 * nprocs;
        for (std::int64_t k = 0; k < migration.received(); ++k)
            right = right && arrived[k] == 1000 * (k / 50) + step + k % 50 * nprocs + rank;
        comparisons.note(right, "step " + std::to_string(step));
    }
    comparisons.expect_all();
}

TEST(ProgressThreads, ComeAndGoByAllThreadsOfAProgram) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([] {
            for (int step = 0; step < 10 * steps(); ++step) const datamover::ProgressThread thread;
        });
    for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Transports, Threads,
                         ::testing::Values("auto", "read", "staged", "p2p", "datatype", "get",
                                           "put"),
                         [](const auto& tested) { return tested.param; });

}  // namespace

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv, MPI_THREAD_MULTIPLE);
}

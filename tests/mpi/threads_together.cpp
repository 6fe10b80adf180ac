// SPDX-License-Identifier: BSD-3-Clause
// Threads of one process when a peer fails, and when movers, migrations and streams are in
// progress together. Like threads.cpp, it is also built with the thread sanitizer.
#include <mpi.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "datamover/datamover.hpp"
#include "mpi_test.hpp"
#include "repeated_moves.hpp"

namespace {

using mpi_test::arithmetic, mpi_test::Dealt, mpi_test::RowsToColumns, mpi_test::steps;

/// The code of the error that a call throws; none where it throws none.
std::optional<datamover::ErrorCode> error_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const datamover::Error& e) {
        return e.code();
    }
    return std::nullopt;
}

class FailingPeers : public ::testing::TestWithParam<std::string> {};

/// All rounds of a process fail at the same time: some are pushed on by the thread that waits for
/// them, others by the progress thread.
TEST_P(FailingPeers, EndAllMoversOfAProgressThread) {
    constexpr int movers = 24;
    if (mpi_test::world_size() == 1) GTEST_SKIP() << "takes several processes";
    datamover::MoverOptions options;
    options.transport = GetParam();
    const bool fails = mpi_test::world_rank() == mpi_test::world_size() - 1;
    for (int repeat = 0; repeat < 1 + steps() / 10; ++repeat) {
        const mpi_test::OwnComm comm;
        std::deque<RowsToColumns> all;
        for (int i = 0; i < movers; ++i) all.emplace_back(comm, options);
        MPI_Barrier(MPI_COMM_WORLD);
        if (fails) {
            all.front().start();
            MPI_Barrier(MPI_COMM_WORLD);
            all.front().abort();
        } else {
            const datamover::ProgressThread progress;
            for (int i = 1; i < movers; ++i) all[static_cast<std::size_t>(i)].start();
            MPI_Barrier(MPI_COMM_WORLD);
            for (int i = 1; i < movers; ++i)
                EXPECT_EQ(error_of([&] { all[static_cast<std::size_t>(i)].wait(); }),
                          datamover::ErrorCode::peer_failed);
        }
        all.clear();
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

INSTANTIATE_TEST_SUITE_P(Transports, FailingPeers, ::testing::Values("auto", "p2p", "datatype"),
                         [](const auto& tested) { return tested.param; });

/// Of a communicator.
constexpr std::size_t most_in_flight = 8;

std::deque<Dealt> as_many_as_may_be(MPI_Comm comm) {
    std::deque<Dealt> all;
    while (all.size() < most_in_flight) all.emplace_back(comm);
    return all;
}

TEST(SeveralDistributions, AreCarriedByTheProgressThread) {
    const mpi_test::OwnComm comm;
    std::deque<Dealt> all = as_many_as_may_be(comm);
    const datamover::ProgressThread progress;
    mpi_test::Comparisons comparisons;
    for (int step = 0; step < steps(); ++step) {
        for (Dealt& one : all) one.start(step);
        for (const Dealt& one : all) EXPECT_GE(one.rounds(), 0);
        for (std::size_t i = 0; i < all.size(); ++i) {
            Dealt& one = all[(i + static_cast<std::size_t>(mpi_test::world_rank())) % all.size()];
            one.wait();
            comparisons.note(one.arrived(step), "step " + std::to_string(step));
        }
    }
    comparisons.expect_all();
}

/// The last one is moved again while another thread waits for the others: the first has to give up
/// its place to it.
TEST(SeveralDistributions, AreWaitedForByAnotherThread) {
    const mpi_test::OwnComm comm;
    std::deque<Dealt> all = as_many_as_may_be(comm);
    const datamover::ProgressThread progress;
    mpi_test::Comparisons comparisons;
    for (int step = 0; step < steps(); ++step) {
        for (Dealt& one : all) one.start(step);
        std::thread other([&] {
            for (std::size_t i = 0; i + 1 < all.size(); ++i) {
                if (step % 2 == 0)
                    all[i].wait();
                else
                    while (!all[i].test()) std::this_thread::yield();
            }
        });
        all.back().wait();
        comparisons.note(all.back().arrived(step), "step " + std::to_string(step));
        all.back().start(step + 1);
        all.back().wait();
        comparisons.note(all.back().arrived(step + 1), "again, step " + std::to_string(step));
        other.join();
        for (std::size_t i = 0; i + 1 < all.size(); ++i)
            comparisons.note(all[i].arrived(step), "step " + std::to_string(step));
    }
    comparisons.expect_all();
}

/// Another thread drops those that are in flight, as a collector of garbage does.
TEST(SeveralDistributions, AreDroppedByAnotherThread) {
    for (int repeat = 0; repeat < 1 + steps() / 10; ++repeat) {
        const mpi_test::OwnComm comm;
        std::array<std::optional<Dealt>, most_in_flight> all;
        for (auto& one : all) one.emplace(comm);
        const datamover::ProgressThread progress;
        for (auto& one : all) one->start(repeat);
        all.back()->wait();
        MPI_Barrier(MPI_COMM_WORLD);
        std::thread other([&] {
            for (std::size_t i = 0; i + 1 < all.size(); ++i) all[i].reset();
        });
        const auto error = error_of([&] {
            all.back()->start(repeat + 1);
            all.back()->wait();
        });
        EXPECT_TRUE(!error || *error == datamover::ErrorCode::peer_failed);
        other.join();
        all.back().reset();
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/// A stream from this program to itself, by rows to columns.
class LoopedStream {
public:
    LoopedStream(MPI_Comm sending, MPI_Comm receiving)
        : out_(sending, "tcp://127.0.0.1:0", one_consumer()),
          sent_(sending, layout("(block, *)"), sizeof(std::int64_t),
                {.type = datamover::ScalarType::int64}),
          in_(receiving, out_.address(), {.timeout_seconds = 60}),
          received_(receiving, layout("(*, block)"), sizeof(std::int64_t),
                    {.type = datamover::ScalarType::int64}) {
        in_.subscribe({{"u", received_.part()}});
    }

    void send_all() {
        for (std::int64_t step = 0; step < steps(); ++step) {
            const auto rows = sent_.local<std::int64_t>();
            for (std::int64_t i = 0; i < edge(); ++i)
                for (std::int64_t j = 0; j < edge() * nprocs(); ++j)
                    rows(i, j) = value(step, mpi_test::world_rank() * edge() + i, j);
            out_.send("u", sent_, step);
        }
        out_.close(60);
    }
    void receive_all(mpi_test::Comparisons& comparisons) {
        for (std::int64_t step = 0; step < steps(); ++step) {
            const auto found = in_.next(60);
            bool right = found && found->number == step;
            const auto columns = received_.local<std::int64_t>();
            for (std::int64_t i = 0; i < edge() * nprocs(); ++i)
                for (std::int64_t j = 0; j < edge(); ++j)
                    right = right &&
                            columns(i, j) == value(step, i, mpi_test::world_rank() * edge() + j);
            comparisons.note(right, "step " + std::to_string(step) + " of the stream");
        }
        comparisons.note(!in_.next(60), "the end of the stream");
    }

private:
    static constexpr std::int64_t edge() { return mpi_test::elems_per_process; }
    static std::int64_t nprocs() { return mpi_test::world_size(); }
    static std::int64_t value(std::int64_t step, std::int64_t i, std::int64_t j) {
        return (step * 1000 + i) * 1000 + j;
    }
    static datamover::BlockCyclic layout(const char* distribution) {
        return {{edge() * nprocs(), edge() * nprocs()}, distribution, nprocs()};
    }
    static datamover::StreamOptions one_consumer() {
        datamover::StreamOptions options;
        options.consumers = 1;
        return options;
    }

    datamover::Stream out_;
    datamover::Array sent_;
    datamover::StreamSource in_;
    datamover::Array received_;
};

TEST(MoversAndStreams, AreUnderWayTogether) {
    const mpi_test::OwnComm sending, receiving, moving;
    LoopedStream stream(sending, receiving);
    RowsToColumns moved(moving, {});
    Dealt dealt(moving);
    const datamover::ProgressThread progress;
    mpi_test::Comparisons comparisons, received;
    std::thread sender([&] { stream.send_all(); });
    std::thread receiver([&] { stream.receive_all(received); });
    for (int step = 0; step < steps(); ++step) {
        moved.fill(step);
        moved.start();
        dealt.start(step);
        EXPECT_GT(arithmetic(), 0.0);
        moved.wait();
        dealt.wait();
        comparisons.note(moved.arrived(step) && dealt.arrived(step),
                         "step " + std::to_string(step));
    }
    sender.join();
    receiver.join();
    comparisons.expect_all();
    received.expect_all();
}

}  // namespace

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv, MPI_THREAD_MULTIPLE);
}

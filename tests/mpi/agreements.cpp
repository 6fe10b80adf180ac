// SPDX-License-Identifier: BSD-3-Clause
// Agreements: all processes get the contributions of all, few numbers or many. No process waits for
// a failed one, or sleeps while there is something to receive.
#include <gtest/gtest.h>
#include <mpi.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "memory/segment_pool.hpp"
#include "memory/shared_segment.hpp"
#include "mpi/collectives.hpp"
#include "mpi/failures.hpp"
#include "mpi/process_group.hpp"
#include "mpi/waiting.hpp"
#include "mpi_test.hpp"

using datamover::Error;
using datamover::ErrorCode;
using datamover::memory::AllocationPtr;
using datamover::memory::Bell;
using datamover::memory::SegmentPool;
using datamover::mpi::Board;
using datamover::mpi::Failures;
using datamover::mpi::NodeAgreement;
using datamover::mpi::ProcessGroup;
using datamover::mpi::Processors;
using datamover::mpi::Waiting;
using datamover::mpi::WaitLimit;

namespace {

constexpr std::chrono::hours longer_than_any_test{24};

/// Where this process has no memory left for so many bytes at once.
std::size_t refused_bytes = std::numeric_limits<std::size_t>::max();

std::int64_t value_of(int rank, int agreement, std::int64_t place) {
    return (agreement * 1000 + rank) * 10'000 - place * (rank % 2 == 0 ? 1 : -1);
}

std::vector<std::int64_t> values_of(int rank, int agreement, std::int64_t count) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(value_of(rank, agreement, i));
    return values;
}

/// As many as fit into a board, one more, none, or anything.
std::int64_t drawn_count(mpi_test::Draws& draws) {
    constexpr auto most = static_cast<int>(Board::Slot::most);
    return draws.one_in(3) ? draws.from(most - 1, most + 1) : draws.from(0, 2 * most);
}

TEST(Agreements, GatherWhatEachProcessBrings) {
    mpi_test::Draws draws(1);
    mpi_test::Comparisons comparisons;
    const auto group = ProcessGroup::of(MPI_COMM_WORLD);
    for (int i = 0; i < mpi_test::oracle_cases(group->size()); ++i) {
        std::vector<std::vector<std::int64_t>> expected;
        for (int rank = 0; rank < group->size(); ++rank)
            expected.push_back(values_of(rank, i, drawn_count(draws)));
        const auto& mine = expected[static_cast<std::size_t>(group->rank())];
        comparisons.note(group->gather(mine) == expected, "agreement " + std::to_string(i));
        std::vector<std::vector<std::int64_t>> on_node;
        for (const int rank : group->node().ranks)
            on_node.push_back(expected[static_cast<std::size_t>(rank)]);
        comparisons.note(group->gather_on_node(mine) == on_node,
                         "on the node " + std::to_string(i));
    }
    comparisons.expect_all();
}

TEST(Agreements, FindTheLargestOfEachValue) {
    mpi_test::Draws draws(2);
    mpi_test::Comparisons comparisons;
    const auto group = ProcessGroup::of(MPI_COMM_WORLD);
    for (int i = 0; i < mpi_test::oracle_cases(group->size()); ++i) {
        const std::int64_t count = drawn_count(draws);
        std::vector<std::int64_t> expected(static_cast<std::size_t>(count),
                                           std::numeric_limits<std::int64_t>::min());
        for (int rank = 0; rank < group->size(); ++rank)
            for (std::int64_t v = 0; v < count; ++v) {
                auto& most = expected[static_cast<std::size_t>(v)];
                most = std::max(most, value_of(rank, i, v));
            }
        comparisons.note(group->maximum(values_of(group->rank(), i, count)) == expected,
                         "agreement " + std::to_string(i));
        const bool is_same = draws.one_in(2);
        const auto number = static_cast<std::uint32_t>(is_same ? i : i + group->rank());
        comparisons.note(
            datamover::mpi::all_equal(*group, number) == (is_same || group->size() == 1),
            "whether all bring the same in " + std::to_string(i));
    }
    comparisons.expect_all();
}

TEST(Agreements, AreRefusedWhereProcessesMakeDifferentCalls) {
    for (int kind = 0; kind < 3; ++kind) {
        const mpi_test::OwnComm comm;
        const auto group = ProcessGroup::of(comm);
        if (std::ssize(group->node().ranks) != group->size() || group->size() == 1)
            GTEST_SKIP() << "takes several processes of one node";
        const bool is_last = group->rank() == group->size() - 1;
        try {
            // As numbers for each other, these would mean a process that there is not.
            if (!is_last && kind == 0)
                group->agree(std::nullopt);
            else if (!is_last && kind == 1)
                group->maximum({group->size(), 1});
            else if (!is_last)
                group->gather({group->size()});
            else
                group->maximum({2 * group->size()});
            ADD_FAILURE() << "nothing was thrown";
        } catch (const Error& error) {
            EXPECT_TRUE(error.code() == ErrorCode::mismatch ||
                        error.code() == ErrorCode::peer_failed);
            EXPECT_NE(std::string(error.what()).find("make different calls"), std::string::npos);
        }
        EXPECT_TRUE(mpi_test::holds_everywhere(!HasFailure()));
    }
}

TEST(Agreements, AreGivenUpByAThreadThatWaitsNoLonger) {
    const mpi_test::OwnComm comm;
    const auto group = ProcessGroup::of(comm);
    if (group->size() == 1) GTEST_SKIP() << "takes several processes";
    const auto error_of_gathering = [&] {
        try {
            group->gather({group->rank()});
        } catch (const Error& error) {
            return error.code();
        }
        return ErrorCode::mismatch;  // nothing was thrown
    };
    if (group->rank() == 0) {
        const WaitLimit longer(1e6), limit(0.01), outer(1e6);
        EXPECT_EQ(error_of_gathering(), ErrorCode::timeout);
    }
    MPI_Barrier(MPI_COMM_WORLD);  // in which the others wait for this one
    error_of_gathering();         // MPI may have got what this one brings all the same
    EXPECT_EQ(error_of_gathering(), ErrorCode::peer_failed);
    const mpi_test::OwnComm another;
    ProcessGroup::of(another)->gather({1});  // with no limit any more
}

TEST(Agreements, EndWhereAProcessHasNoMemoryForWhatIsGathered) {
    const mpi_test::OwnComm comm;
    const auto group = ProcessGroup::of(comm);
    if (std::ssize(group->node().ranks) != group->size() || group->size() == 1)
        GTEST_SKIP() << "takes several processes of one node";
    constexpr std::size_t much = 100'000;
    const bool is_last = group->rank() == group->size() - 1;
    const std::vector<std::int64_t> mine(is_last ? 1 : much, 7);
    if (is_last) {
        refused_bytes = much;
        EXPECT_THROW(static_cast<void>(group->gather(mine)), std::bad_alloc);
        refused_bytes = std::numeric_limits<std::size_t>::max();
    } else {
        try {
            group->gather(mine);
            ADD_FAILURE() << "nothing was thrown";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::peer_failed);
            EXPECT_NE(std::string(error.what()).find("out of memory"), std::string::npos);
        }
    }
    EXPECT_TRUE(mpi_test::holds_everywhere(!HasFailure()));
}

TEST(Agreements, TakeMoreEntriesThanMemoryCanHoldForAShortageOfIt) {
    const mpi_test::OwnComm comm;
    const auto group = ProcessGroup::of(comm);
    const int last = group->size() - 1;
    try {
        datamover::mpi::collectively(*group, [&] {
            std::vector<std::int64_t> entries;
            if (group->rank() == last) entries.reserve(entries.max_size() + 1);
        });
        ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::no_memory);
        EXPECT_EQ(std::string(e.what()),
                  "process " + std::to_string(last) + " needs more entries than memory can hold");
    }
}

#ifdef __linux__
TEST(Agreements, ProcessesThatABatchSystemLeavesOneProcessorShareIt) {
    cpu_set_t before, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    int processor = 0;
    while (!CPU_ISSET(processor, &before)) ++processor;
    MPI_Bcast(&processor, 1, MPI_INT, 0, MPI_COMM_WORLD);
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    const bool is_confined = sched_setaffinity(0, sizeof one, &one) == 0;
    if (mpi_test::holds_everywhere(is_confined)) {
        const mpi_test::OwnComm comm;
        const auto group = ProcessGroup::of(comm);
        EXPECT_EQ(group->node().processors,
                  group->size() > 1 ? Processors::shared : Processors::one_each);
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    EXPECT_TRUE(mpi_test::holds_everywhere(!HasFailure()));
}
#endif

TEST(Agreements, EndWhereAProcessFailsInstead) {
    const mpi_test::OwnComm comm;
    const auto group = ProcessGroup::of(comm);
    if (std::ssize(group->node().ranks) != group->size())
        GTEST_SKIP() << "a collective of MPI that never ends keeps MPI from ending";
    group->gather({1});
    if (group->rank() == group->size() - 1) {
        group->failures().fail(Error(ErrorCode::io, "it went wrong"));
    } else {
        try {
            group->gather({2});
            ADD_FAILURE() << "nothing was thrown";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::peer_failed);
            EXPECT_NE(std::string(error.what()).find("it went wrong"), std::string::npos);
        }
    }
    EXPECT_TRUE(mpi_test::holds_everywhere(!HasFailure()));
}

/// The boards of two processes of a node, both in this one.
std::vector<std::unique_ptr<Failures>> two_boards() {
    std::vector<AllocationPtr> memory;
    for (int position = 0; position < 2; ++position) {
        memory.push_back(SegmentPool::of_process().allocate_shared(sizeof(Board)));
        new (memory.back()->data) Board{};
    }
    std::vector<std::unique_ptr<Failures>> boards;
    for (int position = 0; position < 2; ++position) {
        const auto at = static_cast<std::size_t>(position);
        datamover::mpi::NodeShares shares;
        shares.own = memory[at];
        shares.data = {memory[0]->data, memory[1]->data};
        shares.mapped = {memory[1 - at]->segment};
        boards.push_back(std::make_unique<Failures>(MPI_COMM_WORLD));
        boards.back()->connect(std::move(shares), position, {});
    }
    return boards;
}

TEST(Agreements, AreHeardByWhoIsLateAlthoughAnotherHasLeft) {
    using Values = std::vector<std::vector<std::int64_t>>;
    auto boards = two_boards();
    const std::vector<std::int64_t> early{1}, late{2};
    const NodeAgreement of_other(boards[0]->boards()), mine(boards[1]->boards());
    of_other.post(datamover::mpi::Question::all, early);
    mine.post(datamover::mpi::Question::all, late);
    Failures::leave(std::move(boards[0]), {});
    // Those of the next communicator come to lie where memory has been given back.
    auto next = two_boards();
    ASSERT_TRUE(mine.all_posted());
    EXPECT_EQ(mine.collect(), (Values{early, late}));
    Failures::leave(std::move(boards[1]), {});
    for (auto& board : next) Failures::leave(std::move(board), {});
}

TEST(Agreements, LeaveNoMemoryBehindOnceAllHaveLeft) {
    auto boards = two_boards();
    const SegmentPool& pool = SegmentPool::of_process();
    auto again = SegmentPool::of_process().allocate_shared(sizeof(Board));
    const std::byte* after = again->data;
    again.reset();
    for (auto& board : boards) Failures::leave(std::move(board), {});
    for (int time = 0; time < 3; ++time) {
        for (auto& board : boards = two_boards()) Failures::leave(std::move(board), {});
        EXPECT_EQ(pool.find(after, after + 1), nullptr) << "the pool has lost what it had";
    }
}

TEST(Waiting, DoesNotCountTheTimeInWhichTheProcessWasStopped) {
    constexpr int more_than_it_spins = 100;
    Waiting waiting(Processors::shared, 1.0);
    for (int turn = 0; turn < more_than_it_spins; ++turn) waiting.pause();
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    waiting.pause();
    EXPECT_FALSE(waiting.expired());
    while (!waiting.expired()) waiting.pause();
    EXPECT_GE(waiting.seconds(), 1.9);
}

TEST(Bell, WakesWhoSleeps) {
    Bell bell;
    std::atomic<int> has_come{0};
    for (int time = 1; time <= 1000; ++time) {
        std::thread sleeper([&] {
            while (has_come.load() < time)
                bell.sleep(longer_than_any_test, [&] { return has_come.load() >= time; });
        });
        has_come.store(time);
        bell.ring();
        sleeper.join();
    }
}

TEST(Bell, LetsNobodySleepLongerThanWasSaid) {
    Bell bell;
    bell.sleep(std::chrono::microseconds(1), [] { return false; });
    bell.sleep(longer_than_any_test, [] { return true; });
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
    void* memory = bytes < refused_bytes ? std::malloc(bytes > 0 ? bytes : 1) : nullptr;
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

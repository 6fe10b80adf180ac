// SPDX-License-Identifier: BSD-3-Clause
// Failing allocations: nothing is lost, and no destructor ends the program.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <string>

#include "datamover/datamover.hpp"
#include "memory/segment_pool.hpp"
#include "mpi/process_group.hpp"
#include "mpi_test.hpp"
#include "repeated_moves.hpp"

namespace {

/// How many allocations of this thread still succeed.
constexpr int unlimited = -1;
thread_local int allocations_left = unlimited;

/// While it lives, this thread gets memory so many times, then never.
class ShortMemory {
public:
    explicit ShortMemory(int allocations) { allocations_left = allocations; }
    ~ShortMemory() { allocations_left = unlimited; }
    ShortMemory(const ShortMemory&) = delete;
    ShortMemory& operator=(const ShortMemory&) = delete;
};

/// Whether a call throws for lack of memory when it gets some so many times.
bool fails_after(int allocations, const std::function<void()>& call) {
    const ShortMemory memory(allocations);
    try {
        call();
    } catch (const std::exception&) {
        return true;
    }
    return false;
}

}  // namespace

// Not inlined: GCC would take each for the other allocator's half.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    if (allocations_left == 0) throw std::bad_alloc();
    if (allocations_left > 0) --allocations_left;
    if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept try {
    return operator new(bytes);
} catch (const std::bad_alloc&) {
    return nullptr;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace datamover {
namespace {

TEST(ShortMemory, LosesNothingOfTheSegmentPool) {
    constexpr std::int64_t bytes = 1000;
    auto& pool = memory::SegmentPool::of_process();
    const auto before = pool.allocate_shared(bytes), hole = pool.allocate_shared(bytes),
               after = pool.allocate_shared(bytes);
    const std::byte* const place = pool.allocate_shared(bytes)->data;
    int allocations = 0;
    bool failed = true;
    for (; failed; ++allocations) {
        memory::AllocationPtr made;
        failed = fails_after(allocations, [&] { made = pool.allocate_shared(bytes); });
        ASSERT_EQ(made == nullptr, failed);
        ASSERT_FALSE(fails_after(0, [&] { made.reset(); }));
        ASSERT_EQ(pool.allocate_shared(bytes)->data, place) << "after " << allocations;
    }
    EXPECT_GT(allocations, 1);
}

TEST(ShortMemory, LosesNothingOfAdoptedMemory) {
    constexpr std::size_t bytes = 1 << 16;
    void* const mapped =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    auto* const data = static_cast<std::byte*>(mapped);
    auto& pool = memory::SegmentPool::of_process();
    int allocations = 0;
    bool failed = true;
    for (; failed; ++allocations) {
        memory::AllocationPtr adopted;
        failed = fails_after(allocations, [&] { adopted = pool.adopt(data, bytes); });
        ASSERT_EQ(pool.find(data, data + bytes), adopted);
        ASSERT_FALSE(fails_after(0, [&] { adopted.reset(); }));
        ASSERT_EQ(pool.find(data, data + bytes), nullptr);
    }
    EXPECT_GT(allocations, 1);
    ::munmap(mapped, bytes);
}

/// The outcome of a call: an error's code, 0 where there was none.
int code_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& e) {
        return static_cast<int>(e.code());
    } catch (const std::bad_alloc&) {
        return static_cast<int>(ErrorCode::no_memory);
    }
    return 0;
}

constexpr int peer_failed = static_cast<int>(ErrorCode::peer_failed);

/// Waits until this process has the notice of process 0's failure, if there is one: MPICH ends a
/// program that frees a communicator with a message under way.
void wait_until_noticed(MPI_Comm comm) {
    const auto group = mpi::ProcessGroup::of(comm);
    const auto is_noticed = [&] {
        return code_of([&] { group->failures().check_while_waiting(); }) == peer_failed;
    };
    bool has_failed = is_noticed();
    MPI_Bcast(&has_failed, 1, MPI_CXX_BOOL, 0, MPI_COMM_WORLD);
    while (has_failed && !is_noticed()) {
    }
}

/// Tells all whether an allocation of process 0 failed; where none did, all others are right too.
void learn_outcome(bool& failed, int code, MPI_Comm comm) {
    MPI_Bcast(&failed, 1, MPI_CXX_BOOL, 0, MPI_COMM_WORLD);
    wait_until_noticed(comm);
    if (!failed) {
        EXPECT_EQ(code, 0);
    }
}

class ShortMemoryOfMovers : public ::testing::TestWithParam<std::string> {};

TEST_P(ShortMemoryOfMovers, OnesInFlightAreGivenUpAndTold) {
    MoverOptions options;
    options.transport = GetParam();
    std::optional<mpi_test::OwnComm> comm(std::in_place);
    std::optional<mpi_test::RowsToColumns> moved(std::in_place, *comm, options);
    MPI_Barrier(MPI_COMM_WORLD);  // a notice of failure may overtake the end of a binding
    if (mpi_test::world_rank() == 0) {
        moved->start();
        EXPECT_FALSE(fails_after(0, [&] { moved->abort(); }));
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        // What process 0 had sent to another node before it gave up may be all that is awaited.
        const int code = code_of([&] {
            moved->start();
            moved->wait();
        });
        EXPECT_TRUE(code == peer_failed || code == 0) << code;
    }
    wait_until_noticed(*comm);
    EXPECT_FALSE(fails_after(0, [&] {
        moved.reset();
        comm.reset();
    }));
}

/// Whatever allocation fails on process 0 while it binds, the others do not wait for it.
TEST_P(ShortMemoryOfMovers, BindingsFailOnAllProcesses) {
    MoverOptions options;
    options.transport = GetParam();
    const std::int64_t n = mpi_test::world_size() * mpi_test::elems_per_process;
    const BlockCyclic rows({n, n}, "(block, *)", mpi_test::world_size()),
        columns({n, n}, "(*, block)", mpi_test::world_size());
    const MotionPlan plan = redistribute(rows, columns);
    bool failed = true;
    for (int allocations = 0; failed; allocations += 1 + allocations / 8) {
        std::optional<mpi_test::OwnComm> comm(std::in_place);
        std::optional<Array> from(std::in_place, *comm, rows, sizeof(double)),
            to(std::in_place, *comm, columns, sizeof(double));
        MPI_Barrier(MPI_COMM_WORLD);  // all have made them when the first fails
        std::optional<Mover> mover;
        const auto bind = [&] {
            mover.emplace(*comm, plan, *from, *to, options);
            mover->rebind(from->part(), to->part());
        };
        int code = 0;
        if (mpi_test::world_rank() == 0)
            failed = fails_after(allocations, bind);
        else
            code = code_of(bind);
        EXPECT_TRUE(code == 0 || code == peer_failed ||
                    code == static_cast<int>(ErrorCode::no_memory))
            << code << " after " << allocations;
        learn_outcome(failed, code, *comm);
        EXPECT_FALSE(fails_after(0, [&] {
            mover.reset();
            from.reset();
            to.reset();
            comm.reset();
        }));
    }
}

INSTANTIATE_TEST_SUITE_P(Transports, ShortMemoryOfMovers,
                         ::testing::Values("auto", "p2p", "datatype", "collective"),
                         [](const auto& tested) { return tested.param; });

/// Whatever allocation fails on process 0 while it waits, all processes end the move.
TEST(ShortMemoryOfDistributions, OnesInFlightFailOnAllProcesses) {
    bool failed = true;
    for (int allocations = 0; failed; allocations += 1 + allocations / 8) {
        std::optional<mpi_test::OwnComm> comm(std::in_place);
        std::optional<mpi_test::Dealt> dealt(std::in_place, *comm);
        int code = 0;
        if (mpi_test::world_rank() == 0) {
            dealt->start(allocations);
            failed = fails_after(allocations, [&] { dealt->wait(); });
            // Given up, where that is what has failed: the others hear of it.
            EXPECT_FALSE(fails_after(0, [&] { dealt.reset(); }));
        } else {
            // The failure may arrive before this process starts.
            code = code_of([&] {
                dealt->start(allocations);
                dealt->wait();
            });
            EXPECT_TRUE(code == 0 || code == peer_failed) << code;
        }
        learn_outcome(failed, code, *comm);
        EXPECT_FALSE(fails_after(0, [&] {
            dealt.reset();
            comm.reset();
        }));
    }
}

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

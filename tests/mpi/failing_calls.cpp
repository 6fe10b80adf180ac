// SPDX-License-Identifier: BSD-3-Clause
// What happens when one MPI call fails on one process?
//
// This program's own MPI_ functions stand before the library's calls (MPI's profiling interface).
// For every k, the k-th call on one process fails, without being carried out or after it. Then
// nobody may hang or leak, all data that arrived is right, and nothing moves on that communicator
// afterwards unless all processes were told the same error.
#include <dirent.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "datamover/block_cyclic.hpp"
#include "datamover/mover.hpp"
#include "datamover/user_block.hpp"
#include "datamover/x_array.hpp"
#include "mpi/process_group.hpp"
#include "mpi_test.hpp"

namespace {

enum class Failure { instead, afterwards };

/// Counts the calls of this process and lets one of them fail.
struct Injector {
    bool armed = false;
    int failing_call = -1, calls = 0;
    Failure failure = Failure::instead;
    bool failed = false;
    bool polled = false;  ///< since the last call that does something
    int open_requests = 0;

    bool is_the_one() {
        if (!armed || calls++ != failing_call) return false;
        failed = true;
        return true;
    }
    template <class Call>
    int act(Call&& call) {
        polled = false;
        const bool fails = is_the_one();
        const int code = fails && failure == Failure::instead ? MPI_SUCCESS : call();
        return fails ? MPI_ERR_OTHER : code;
    }
    /// Polls without result are as many as the time they take: counted are the first after each
    /// call that does something, and those that find something.
    template <class Call>
    int poll(Call&& call, const int* found) {
        if (failure == Failure::instead && !polled) {
            polled = true;
            if (is_the_one()) return MPI_ERR_OTHER;
        }
        const int code = call();
        if (failure == Failure::afterwards && *found != 0 && is_the_one()) return MPI_ERR_OTHER;
        return code;
    }
};
Injector injector;

}  // namespace

extern "C" {
int MPI_Iallreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
    return injector.act([&] { return PMPI_Iallreduce(in, out, n, type, op, comm, request); });
}
int MPI_Ibcast(void* data, int n, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request* request) {
    return injector.act([&] { return PMPI_Ibcast(data, n, type, root, comm, request); });
}
int MPI_Iallgather(const void* in, int n, MPI_Datatype in_type, void* out, int m,
                   MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
    return injector.act(
        [&] { return PMPI_Iallgather(in, n, in_type, out, m, out_type, comm, request); });
}
int MPI_Iallgatherv(const void* in, int n, MPI_Datatype in_type, void* out, const int m[],
                    const int starts[], MPI_Datatype out_type, MPI_Comm comm,
                    MPI_Request* request) {
    return injector.act(
        [&] { return PMPI_Iallgatherv(in, n, in_type, out, m, starts, out_type, comm, request); });
}
int MPI_Send_init(const void* data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                  MPI_Request* request) {
    *request = MPI_REQUEST_NULL;
    const int code =
        injector.act([&] { return PMPI_Send_init(data, n, type, peer, tag, comm, request); });
    if (*request != MPI_REQUEST_NULL && code != MPI_SUCCESS) PMPI_Request_free(request);
    injector.open_requests += *request != MPI_REQUEST_NULL;
    return code;
}
int MPI_Recv_init(void* data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                  MPI_Request* request) {
    *request = MPI_REQUEST_NULL;
    const int code =
        injector.act([&] { return PMPI_Recv_init(data, n, type, peer, tag, comm, request); });
    if (*request != MPI_REQUEST_NULL && code != MPI_SUCCESS) PMPI_Request_free(request);
    injector.open_requests += *request != MPI_REQUEST_NULL;
    return code;
}
int MPI_Isend(const void* data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
    ++injector.open_requests;
    return PMPI_Isend(data, n, type, peer, tag, comm, request);
}
int MPI_Request_free(MPI_Request* request) {
    --injector.open_requests;
    return PMPI_Request_free(request);
}
int MPI_Start(MPI_Request* request) {
    return injector.act([&] { return PMPI_Start(request); });
}
int MPI_Startall(int n, MPI_Request requests[]) {
    return injector.act([&] { return PMPI_Startall(n, requests); });
}
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
    return injector.poll([&] { return PMPI_Test(request, flag, status); }, flag);
}
int MPI_Testall(int n, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
    return injector.poll([&] { return PMPI_Testall(n, requests, flag, statuses); }, flag);
}
int MPI_Testsome(int n, MPI_Request requests[], int* count, int which[], MPI_Status statuses[]) {
    return injector.poll([&] { return PMPI_Testsome(n, requests, count, which, statuses); }, count);
}
}

namespace datamover {
namespace {

constexpr int rounds = 2;
constexpr double deadline_seconds = 100;

/// Three movers of the same plan, in flight together: by messages, by messages in rounds through
/// little memory, and by what the library prefers.
struct Movement {
    BlockCyclic rows, columns;
    std::vector<std::int64_t> sent, received, received_in_rounds;
    XArray from, to;
    Mover messages, bounded, preferred;

    explicit Movement(MPI_Comm comm, int size)
        : rows({12, 12}, "(cyclic(2), *)", size), columns({12, 12}, "(*, cyclic)", size) {
        const int rank = mpi_test::world_rank();
        sent.resize(static_cast<std::size_t>(rows.local_shape(rank).product()) + 1);
        received.resize(static_cast<std::size_t>(columns.local_shape(rank).product()) + 1);
        received_in_rounds.resize(received.size());
        from = XArray(comm, rows, 8);
        to = XArray(comm, columns, 8);
        const MotionPlan plan = redistribute(rows, columns);
        MoverOptions p2p;
        p2p.transport = "p2p";
        messages = Mover(comm, plan, dense_part(rows, sent), dense_part(columns, received), p2p);
        p2p.max_bytes = 384 * size;
        bounded =
            Mover(comm, plan, dense_part(rows, sent), dense_part(columns, received_in_rounds), p2p);
        preferred = Mover(comm, plan, from, to);
    }

    /// The user's own dense memory; every process has a part.
    static ArrayPart dense_part(const BlockCyclic& layout, std::vector<std::int64_t>& values) {
        const int rank = mpi_test::world_rank();
        std::vector<UserBlock> blocks;
        for (const BlockMemory& block : dense_memory(layout, rank, 8).blocks)
            blocks.push_back({block.block,
                              reinterpret_cast<std::byte*>(values.data()),
                              block.strides_bytes,
                              {},
                              {}});
        return user_part(layout, blocks, 8, ScalarType::int64);
    }

    std::int64_t* local(const XArray& array) const {
        const auto blocks = array.layout().blocks_of(array.rank());
        return blocks.empty() ? nullptr
                              : reinterpret_cast<std::int64_t*>(array.origin(blocks.front()));
    }

    template <class Visit>
    static void visit(const BlockCyclic& layout, Visit&& visit) {
        const Point shape = layout.local_shape(mpi_test::world_rank());
        for (std::int64_t i = 0, k = 0; i < shape[0]; ++i)
            for (std::int64_t j = 0; j < shape[1]; ++j, ++k) {
                const Point global = layout.global_index(mpi_test::world_rank(), Point{i, j});
                visit(static_cast<std::size_t>(k), global[0] * 12 + global[1]);
            }
    }

    void fill(int round) {
        visit(rows, [&](std::size_t k, std::int64_t at) {
            sent[k] = 1000 * round + at;
            local(from)[k] = -1000 * round - at;
        });
    }
    void start() {
        messages.start();
        bounded.start();
        preferred.start();
    }
    void wait() {
        // All end, whatever the first one throws.
        std::optional<Error> first;
        for (Mover* mover : {&messages, &bounded, &preferred}) try {
                mover->wait(deadline_seconds);
            } catch (const Error& e) {
                if (!first) first = e;
            }
        if (first) throw *first;
    }
    void check(int round) const {
        visit(columns, [&](std::size_t k, std::int64_t at) {
            EXPECT_EQ(received[k], 1000 * round + at);
            EXPECT_EQ(received_in_rounds[k], 1000 * round + at);
            EXPECT_EQ(local(to)[k], -1000 * round - at);
        });
    }
};

/// Open descriptors: shared segments that are not given back show here.
int open_files() {
    int count = 0;
    DIR* const dir = opendir("/proc/self/fd");
    while (readdir(dir)) ++count;
    closedir(dir);
    return count;
}

struct Outcome {
    bool completed = false;
    int code = 0;
    std::string text;
};

Outcome outcome_of(MPI_Comm comm, std::optional<Movement>& movement) {
    try {
        movement.emplace(comm, mpi_test::world_size());
        for (int round = 1; round <= rounds; ++round) {
            movement->fill(round);
            movement->start();
            movement->wait();
            movement->check(round);
        }
        return {true, 0, ""};
    } catch (const Error& e) {
        return {false, static_cast<int>(e.code()), e.what()};
    }
}

/// The code of a further try on the communicator; 0 where it goes well.
int code_of_another_try(MPI_Comm comm) {
    try {
        Movement again(comm, mpi_test::world_size());
        again.fill(rounds + 1);
        again.start();
        again.wait();
        again.check(rounds + 1);
        return 0;
    } catch (const Error& e) {
        return static_cast<int>(e.code());
    }
}

int over_all(int mine, MPI_Op op) {
    int all = 0;
    PMPI_Allreduce(&mine, &all, 1, MPI_INT, op, MPI_COMM_WORLD);
    return all;
}

/// Lets call k of the process `culprit` fail; false when it makes fewer calls.
bool run_case(int k, Failure failure, int culprit) {
    constexpr int mpi_code = static_cast<int>(ErrorCode::mpi);
    constexpr int peer_code = static_cast<int>(ErrorCode::peer_failed);
    // The file of this process's shared memory stays.
    mpi::ProcessGroup::of(MPI_COMM_WORLD)->pool().allocate_shared(1);
    const int files_before = open_files();
    MPI_Comm comm = MPI_COMM_NULL;
    PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
    mpi::ProcessGroup::of(comm);
    injector = {};
    injector.failure = failure;
    injector.failing_call = mpi_test::world_rank() == culprit ? k : -1;
    injector.armed = true;
    std::optional<Movement> movement;
    const Outcome outcome = outcome_of(comm, movement);
    injector.armed = false;
    const bool failed = over_all(injector.failed, MPI_MAX) != 0;
    const bool agreed =
        over_all(outcome.code, MPI_MIN) == mpi_code && over_all(outcome.code, MPI_MAX) == mpi_code;

    if (mpi_test::world_rank() == culprit && failed) {
        EXPECT_FALSE(outcome.completed) << "call " << k << " failed unnoticed";
    }
    if (!outcome.completed) {
        EXPECT_TRUE(failed) << outcome.text;
        EXPECT_TRUE(outcome.code == mpi_code || outcome.code == peer_code) << outcome.text;
    }
    // Told in time everywhere, also to those who had nothing left to do when it failed.
    const int again = code_of_another_try(comm);
    if (!failed) {
        EXPECT_EQ(again, 0);
    } else if (!agreed) {
        EXPECT_EQ(again, peer_code) << "call " << k << ": " << outcome.text;
    }
    movement.reset();
    EXPECT_EQ(injector.open_requests, 0);
    PMPI_Barrier(MPI_COMM_WORLD);
    PMPI_Comm_free(&comm);
    PMPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(open_files(), files_before);
    return failed;
}

class FailingCalls : public ::testing::TestWithParam<Failure> {};

TEST_P(FailingCalls, AreToldToAllAndNothingHangsOrLeaks) {
    const int size = mpi_test::world_size();
    // Every call of one process beside another; with more processes, which are slow on few cores,
    // every third in `make test`.
    const int step = size > 2 && mpi_test::case_factor() == 1 ? 3 : 1;
    int k = 0;
    for (; run_case(k, GetParam(), k % size); k += step)
        ASSERT_TRUE(mpi_test::holds_everywhere(!HasFailure())) << "at call " << k;
    EXPECT_GT(k, 10);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FailingCalls,
                         ::testing::Values(Failure::instead, Failure::afterwards),
                         [](const auto& kind) {
                             return kind.param == Failure::instead ? "Instead" : "Afterwards";
                         });

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

// SPDX-License-Identifier: BSD-3-Clause
// Injection of failures into MPI calls. Each test program includes it once.
//
// The program's own MPI_ functions intercept the library's calls (MPI's profiling interface). For
// every k, the k-th call on one process fails, without being executed or after it. Then no process
// may hang or leak, all data that arrived is right, and later moves on that communicator fail
// unless all processes raised the same error.
#pragma once

#include <dirent.h>
#include <mpi.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "datamover/error.hpp"
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
    bool split_fails = false;                    ///< the next MPI_Comm_split
    MPI_Comm lost = MPI_COMM_NULL;               ///< what that one made
    bool polled = false;                         ///< since the last call that does something
    std::multiset<MPI_Request> open_requests{};  ///< of messages

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
    /// A call that begins a message. Notices of failures do not fail.
    template <class Call>
    int begin_message(MPI_Request* request, int tag, Call&& call) {
        *request = MPI_REQUEST_NULL;
        const bool is_notice = tag == datamover::mpi::FailureNotice::tag;
        const int code = is_notice ? call() : act(call);
        if (*request != MPI_REQUEST_NULL) open_requests.insert(*request);
        return code;
    }
    void close(MPI_Request request) {
        const auto open = open_requests.find(request);
        if (open != open_requests.end()) open_requests.erase(open);
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
int MPI_Isend(const void* data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
    return injector.begin_message(
        request, tag, [&] { return PMPI_Isend(data, n, type, peer, tag, comm, request); });
}
int MPI_Request_free(MPI_Request* request) {
    injector.close(*request);
    return PMPI_Request_free(request);
}
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
    const MPI_Request before = *request;
    const int code = injector.poll([&] { return PMPI_Test(request, flag, status); }, flag);
    if (*request == MPI_REQUEST_NULL) injector.close(before);
    return code;
}
int MPI_Testall(int n, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
    return injector.poll([&] { return PMPI_Testall(n, requests, flag, statuses); }, flag);
}
int MPI_Testsome(int n, MPI_Request requests[], int* count, int which[], MPI_Status statuses[]) {
    const std::vector<MPI_Request> before(requests, requests + n);
    const int code =
        injector.poll([&] { return PMPI_Testsome(n, requests, count, which, statuses); }, count);
    for (int i = 0; i < n; ++i)
        if (requests[i] == MPI_REQUEST_NULL) injector.close(before[static_cast<std::size_t>(i)]);
    return code;
}
int MPI_Issend(const void* data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
               MPI_Request* request) {
    return injector.begin_message(
        request, tag, [&] { return PMPI_Issend(data, n, type, peer, tag, comm, request); });
}
int MPI_Irecv(void* data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
    return injector.begin_message(
        request, tag, [&] { return PMPI_Irecv(data, n, type, peer, tag, comm, request); });
}
int MPI_Iprobe(int peer, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
    *flag = 0;
    if (tag == datamover::mpi::FailureNotice::tag)
        return PMPI_Iprobe(peer, tag, comm, flag, status);
    return injector.poll([&] { return PMPI_Iprobe(peer, tag, comm, flag, status); }, flag);
}
int MPI_Ialltoall(const void* in, int n, MPI_Datatype in_type, void* out, int m,
                  MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
    return injector.act(
        [&] { return PMPI_Ialltoall(in, n, in_type, out, m, out_type, comm, request); });
}
int MPI_Ialltoallw(const void* in, const int n[], const int starts[], const MPI_Datatype types[],
                   void* out, const int m[], const int places[], const MPI_Datatype out_types[],
                   MPI_Comm comm, MPI_Request* request) {
    return injector.act([&] {
        return PMPI_Ialltoallw(in, n, starts, types, out, m, places, out_types, comm, request);
    });
}
int MPI_Ineighbor_alltoallw(const void* in, const int n[], const MPI_Aint starts[],
                            const MPI_Datatype types[], void* out, const int m[],
                            const MPI_Aint places[], const MPI_Datatype out_types[], MPI_Comm comm,
                            MPI_Request* request) {
    return injector.act([&] {
        return PMPI_Ineighbor_alltoallw(in, n, starts, types, out, m, places, out_types, comm,
                                        request);
    });
}
#if MPI_VERSION >= 4
int MPI_Ialltoallv_c(const void* in, const MPI_Count n[], const MPI_Aint starts[],
                     MPI_Datatype type, void* out, const MPI_Count m[], const MPI_Aint places[],
                     MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
    return injector.act([&] {
        return PMPI_Ialltoallv_c(in, n, starts, type, out, m, places, out_type, comm, request);
    });
}
int MPI_Ialltoallw_c(const void* in, const MPI_Count n[], const MPI_Aint starts[],
                     const MPI_Datatype types[], void* out, const MPI_Count m[],
                     const MPI_Aint places[], const MPI_Datatype out_types[], MPI_Comm comm,
                     MPI_Request* request) {
    return injector.act([&] {
        return PMPI_Ialltoallw_c(in, n, starts, types, out, m, places, out_types, comm, request);
    });
}
#endif
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
    return injector.act([&] { return PMPI_Comm_idup(comm, made, request); });
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
    const int code = PMPI_Comm_split(comm, color, key, made);
    if (!injector.split_fails) return code;
    // It blocks until all have come, so it has been carried out in any case.
    injector.split_fails = false;
    injector.failed = true;
    injector.lost = *made;
    *made = MPI_COMM_NULL;
    return MPI_ERR_OTHER;
}
int MPI_Win_attach(MPI_Win window, void* memory, MPI_Aint bytes) {
    return injector.act([&] { return PMPI_Win_attach(window, memory, bytes); });
}
int MPI_Rget(void* data, int n, MPI_Datatype type, int peer, MPI_Aint at, int m,
             MPI_Datatype their_type, MPI_Win window, MPI_Request* request) {
    *request = MPI_REQUEST_NULL;
    return injector.act(
        [&] { return PMPI_Rget(data, n, type, peer, at, m, their_type, window, request); });
}
int MPI_Rput(const void* data, int n, MPI_Datatype type, int peer, MPI_Aint at, int m,
             MPI_Datatype their_type, MPI_Win window, MPI_Request* request) {
    *request = MPI_REQUEST_NULL;
    return injector.act(
        [&] { return PMPI_Rput(data, n, type, peer, at, m, their_type, window, request); });
}
int MPI_Win_flush(int peer, MPI_Win window) {
    return injector.act([&] { return PMPI_Win_flush(peer, window); });
}
int MPI_Win_sync(MPI_Win window) {
    return injector.act([&] { return PMPI_Win_sync(window); });
}
int MPI_Type_commit(MPI_Datatype* type) {
    return injector.act([&] { return PMPI_Type_commit(type); });
}
}

namespace datamover {
namespace {

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

/// Makes the work on a communicator and runs it, twice.
template <class Work>
Outcome outcome_of(MPI_Comm comm, std::optional<Work>& work) {
    try {
        work.emplace(comm);
        for (int round = 1; round <= 2; ++round) work->run(round);
        return {true, 0, ""};
    } catch (const Error& e) {
        return {false, static_cast<int>(e.code()), e.what()};
    }
}

/// The code of a further try on the communicator; 0 where it goes well.
template <class Work>
int code_of_another_try(MPI_Comm comm) {
    try {
        Work(comm).run(3);
        return 0;
    } catch (const Error& e) {
        return static_cast<int>(e.code());
    }
}

int over_all(int mine, MPI_Op op) {
    mpi_test::begin_step();
    int all = 0;
    PMPI_Allreduce(&mine, &all, 1, MPI_INT, op, MPI_COMM_WORLD);
    return all;
}

/// Lets call k of the process `culprit` fail; false when it makes fewer calls.
template <class Work>
bool run_case(int k, Failure failure, int culprit) {
    constexpr int mpi_code = static_cast<int>(ErrorCode::mpi);
    constexpr int peer_code = static_cast<int>(ErrorCode::peer_failed);
    // The file of this process's shared memory stays.
    mpi::ProcessGroup::of(MPI_COMM_WORLD);
    memory::SegmentPool::of_process().allocate_shared(1);
    const int files_before = open_files();
    MPI_Comm comm = MPI_COMM_NULL;
    PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
    mpi::ProcessGroup::of(comm);
    // What blocks in MPI cannot be given up where one process fails right before it.
    if constexpr (requires { Work::prepare(comm); }) {
        Work::prepare(comm);
        PMPI_Barrier(MPI_COMM_WORLD);  // nobody fails while others still prepare
    }
    injector = {};
    injector.failure = failure;
    injector.failing_call = mpi_test::world_rank() == culprit ? k : -1;
    injector.armed = true;
    std::optional<Work> work;
    const Outcome outcome = outcome_of(comm, work);
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
    const int again = code_of_another_try<Work>(comm);
    if (!failed) {
        EXPECT_EQ(again, 0);
    } else if (!agreed) {
        EXPECT_EQ(again, peer_code) << "call " << k << ": " << outcome.text;
    }
    work.reset();
    EXPECT_EQ(injector.open_requests.size(), 0u);
    PMPI_Barrier(MPI_COMM_WORLD);
    PMPI_Comm_free(&comm);
    PMPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(open_files(), files_before);
    return failed;
}

/// Lets every call of one process fail beside another; `step`: every so many. So many calls there
/// are at `least`.
template <class Work>
void run_all_cases(Failure failure, int step, int least = 10) {
    const int size = mpi_test::world_size();
    int k = 0;
    for (; run_case<Work>(k, failure, k % size); k += step)
        ASSERT_TRUE(mpi_test::holds_everywhere(!::testing::Test::HasFailure())) << "at call " << k;
    // A process alone agrees with nobody.
    if (size > 1) {
        EXPECT_GE(k, least);
    }
}

}  // namespace
}  // namespace datamover

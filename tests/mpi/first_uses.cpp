// SPDX-License-Identifier: BSD-3-Clause
// First use of a communicator: completes on all processes, even if one of them is interrupted in it
// or its timeout expires.
//
// A process that is interrupted while it waits for the others continues the wait in its next call.
// Once all have arrived, it does not abandon the first use for some seconds: nothing could tell the
// others.
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <new>
#include <optional>
#include <vector>

#include "datamover/error.hpp"
#include "mpi/process_group.hpp"
#include "mpi/waiting.hpp"
#include "mpi_test.hpp"

namespace {

/// Longer than from one look for an interrupt to the next.
constexpr double late_seconds = 0.05;
constexpr std::int64_t late_polls = 100;

/// How often process 0 has polled, in memory that all processes share.
std::atomic<std::int64_t>* polls = nullptr;
bool counts_polls = false;
/// The last call of MPI that would block until other processes make it, too; none: nullptr.
const char* blocking_call = nullptr;
/// Of this process: comes late to what follows when all have come.
bool is_late = false;
int barriers = 0;

}  // namespace

extern "C" {
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
    if (++barriers > 1) {
        std::fputs("the first use of a communicator was begun anew\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return PMPI_Ibarrier(comm, request);
}
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
    if (counts_polls) ++*polls;
    return PMPI_Test(request, done, status);
}
int MPI_Iallreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
    if (is_late) {
        is_late = false;
        const std::int64_t first = *polls;
        const double begin = MPI_Wtime();
        while (*polls < first + late_polls || MPI_Wtime() < begin + late_seconds) {
        }
    }
    return PMPI_Iallreduce(in, out, n, type, op, comm, request);
}

#define DATAMOVER_BLOCKING_CALL(name, parameters, arguments) \
    int MPI_##name parameters {                              \
        blocking_call = "MPI_" #name;                        \
        return PMPI_##name arguments;                        \
    }
DATAMOVER_BLOCKING_CALL(Barrier, (MPI_Comm comm), (comm))
DATAMOVER_BLOCKING_CALL(Bcast, (void* data, int n, MPI_Datatype type, int root, MPI_Comm comm),
                        (data, n, type, root, comm))
DATAMOVER_BLOCKING_CALL(Allreduce,
                        (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm),
                        (in, out, n, type, op, comm))
DATAMOVER_BLOCKING_CALL(Allgather,
                        (const void* in, int n, MPI_Datatype type, void* out, int m,
                         MPI_Datatype of_out, MPI_Comm comm),
                        (in, n, type, out, m, of_out, comm))
DATAMOVER_BLOCKING_CALL(Alltoall,
                        (const void* in, int n, MPI_Datatype type, void* out, int m,
                         MPI_Datatype of_out, MPI_Comm comm),
                        (in, n, type, out, m, of_out, comm))
DATAMOVER_BLOCKING_CALL(Comm_dup, (MPI_Comm comm, MPI_Comm* made), (comm, made))
DATAMOVER_BLOCKING_CALL(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* made),
                        (comm, color, key, made))
DATAMOVER_BLOCKING_CALL(Comm_split_type,
                        (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made),
                        (comm, type, key, info, made))
DATAMOVER_BLOCKING_CALL(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm* made),
                        (comm, group, made))
DATAMOVER_BLOCKING_CALL(Comm_create_group,
                        (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made),
                        (comm, group, tag, made))
DATAMOVER_BLOCKING_CALL(Recv,
                        (void* data, int n, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
                         MPI_Status* status),
                        (data, n, type, rank, tag, comm, status))
DATAMOVER_BLOCKING_CALL(Ssend,
                        (const void* data, int n, MPI_Datatype type, int rank, int tag,
                         MPI_Comm comm),
                        (data, n, type, rank, tag, comm))
DATAMOVER_BLOCKING_CALL(Wait, (MPI_Request * request, MPI_Status* status), (request, status))
DATAMOVER_BLOCKING_CALL(Waitall, (int n, MPI_Request* requests, MPI_Status* statuses),
                        (n, requests, statuses))
}

namespace datamover::mpi {
namespace {

/// Ends what process 0 waits for as soon as it is looked for.
struct End {
    const char* name;
    void (*begin)();
    void (*end)();
};

class FirstUses : public ::testing::TestWithParam<End> {
protected:
    FirstUses() {
        const MPI_Aint bytes = mpi_test::world_rank() == 0 ? sizeof *polls : 0;
        void* own = nullptr;
        MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window_);
        MPI_Aint found = 0;
        int unit = 0;
        MPI_Win_shared_query(window_, 0, &found, &unit, &polls);
        if (mpi_test::world_rank() == 0) new (polls) std::atomic<std::int64_t>(0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    ~FirstUses() override { MPI_Win_free(&window_); }

private:
    MPI_Win window_ = MPI_WIN_NULL;
};

/// Uses the communicator until that is through.
void use(MPI_Comm comm) {
    while (true) {
        try {
            ProcessGroup::of(comm);
            return;
        } catch (const Interrupted&) {
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::timeout) << e.what();
        }
    }
}

TEST_P(FirstUses, AreWhole) {
    if (mpi_test::world_size() == 1) GTEST_SKIP() << "takes several processes";
    const mpi_test::OwnComm comm;
    barriers = 0;
    is_late = mpi_test::world_rank() == mpi_test::world_size() - 1;
    if (mpi_test::world_rank() == 0) {
        counts_polls = true;
        GetParam().begin();
    }
    use(comm);
    if (mpi_test::world_rank() == 0) {
        counts_polls = false;
        GetParam().end();
    }
    EXPECT_EQ(ProcessGroup::of(comm)->maximum({mpi_test::world_rank()})[0],
              mpi_test::world_size() - 1);
    barriers = 0;  // the end of a communicator is one, too
}

INSTANTIATE_TEST_SUITE_P(Ends, FirstUses,
                         ::testing::Values(End{"interrupt",
                                               [] { set_interrupt_check([] { return true; }); },
                                               [] { set_interrupt_check(nullptr); }},
                                           End{"deadline", [] { set_default_timeout(1e-6); },
                                               [] { set_default_timeout(std::nullopt); }}),
                         [](const auto& info) { return info.param.name; });

/// A process that is stopped or killed in a blocking call would block the others forever: neither a
/// timeout nor an interrupt ends the call.
TEST(FirstUse, TakesNoCallThatALostProcessWouldBlock) {
    const mpi_test::OwnComm comm;
    barriers = 0;
    blocking_call = nullptr;
    const ProcessGroupPtr group = ProcessGroup::of(comm);
    const auto heard = group->gather_on_node(
        std::vector<std::int64_t>(1000 + static_cast<std::size_t>(group->rank()), group->rank()));
    EXPECT_EQ(blocking_call, nullptr) << blocking_call;
    const std::vector<int>& ranks = group->node().ranks;
    ASSERT_EQ(heard.size(), ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i)
        EXPECT_EQ(heard[i],
                  std::vector<std::int64_t>(1000 + static_cast<std::size_t>(ranks[i]), ranks[i]));
    barriers = 0;
}

}  // namespace
}  // namespace datamover::mpi

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

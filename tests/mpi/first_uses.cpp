// SPDX-License-Identifier: BSD-3-Clause
// First use of a communicator: completes on all processes, even if one of them is interrupted in it
// or its timeout expires.
//
// A process that is interrupted while it waits for the others continues the wait in its next call.
// Once all have arrived, it must not abandon the first use: the others are in MPI calls that would
// wait for it forever.
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <new>
#include <optional>

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

}  // namespace
}  // namespace datamover::mpi

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

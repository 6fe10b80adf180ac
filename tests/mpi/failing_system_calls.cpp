// SPDX-License-Identifier: BSD-3-Clause
// Failure of one system call for shared memory, or for access to another process's memory, on one
// process.
//
// This program's own functions intercept those of the C library. For every k, the k-th call that
// the library makes for shared memory, or to access other processes' memory, fails on one process.
// Then either everything is moved in another way, or all processes raise the error. No process
// hangs or holds wrong data, and a new communicator works.
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "datamover/array.hpp"
#include "datamover/array_part.hpp"
#include "datamover/block_cyclic.hpp"
#include "datamover/migration.hpp"
#include "datamover/mover.hpp"
#include "datamover/progress.hpp"
#include "datamover/targets.hpp"
#include "memory/large_pages.hpp"
#include "memory/segment_pool.hpp"
#include "mpi/process_group.hpp"
#include "mpi_test.hpp"

namespace {

/// Counts the calls of this process and lets one of them fail.
struct Injector {
    bool armed = false, failed = false;
    int failing_call = -1, calls = 0;
    std::function<void()> while_reading;  ///< once, behind what is read of another process

    bool fails(int error) {
        if (!armed || calls++ != failing_call) return false;
        failed = true;
        errno = error;
        return true;
    }
};
Injector injector;

/// Descriptors of the library's shared memory.
std::set<int>& memory_files() {
    static std::set<int> files;
    return files;
}

template <class Function>
Function* next(Function*, const char* name) {
    static_assert(sizeof(Function*) == sizeof(void*));
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// Whether code of this program, which the library is part of, lies there: MPI, which is shared,
/// calls some of these functions too.
bool is_in_program(const void* code) {
    Dl_info there{}, here{};
    return dladdr(code, &there) != 0 &&
           dladdr(reinterpret_cast<const void*>(&injector), &here) != 0 &&
           there.dli_fbase == here.dli_fbase;
}

bool is_ours(const char* path) {
    return std::strncmp(path, "/proc/", 6) == 0 && std::strstr(path, "/fd/") != nullptr;
}

}  // namespace

extern "C" {
int memfd_create(const char* name, unsigned flags) noexcept {
    static auto* const real = next(&memfd_create, "memfd_create");
    const bool ours = std::strcmp(name, "datamover") == 0;
    if (ours && injector.fails(EMFILE)) return -1;
    const int fd = real(name, flags);
    if (ours && fd >= 0) memory_files().insert(fd);
    return fd;
}
int open(const char* path, int flags, ...) {
    static auto* const real = next(&open, "open");
    std::va_list more;
    va_start(more, flags);
    const int mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    if (is_ours(path) && injector.fails(EMFILE)) return -1;
    const int fd = real(path, flags, mode);
    if (is_ours(path) && fd >= 0) memory_files().insert(fd);
    return fd;
}
int ftruncate(int fd, off_t bytes) noexcept {
    static auto* const real = next(&ftruncate, "ftruncate");
    if (memory_files().count(fd) > 0 && injector.fails(ENOSPC)) return -1;
    return real(fd, bytes);
}
void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
    static auto* const real = next(&mmap, "mmap");
    // Other descriptors may be asked for before this program's own objects are made.
    if (fd >= 0 && injector.armed && memory_files().count(fd) > 0 && injector.fails(ENOMEM))
        return MAP_FAILED;
    return real(at, bytes, protection, flags, fd, offset);
}
int madvise(void* at, size_t bytes, int advice) noexcept {
    static auto* const real = next(&madvise, "madvise");
#ifdef MADV_POPULATE_WRITE
    if (advice == MADV_POPULATE_WRITE && is_in_program(__builtin_return_address(0)) &&
        injector.fails(ENOMEM))
        return -1;
#endif
    // The answer of a system without large pages.
    if (advice == datamover::memory::collapse_advice && injector.fails(EINVAL)) return -1;
    return real(at, bytes, advice);
}
ssize_t process_vm_readv(pid_t pid, const iovec* here, unsigned long n, const iovec* there,
                         unsigned long m, unsigned long flags) noexcept {
    static auto* const real = next(&process_vm_readv, "process_vm_readv");
    const bool ours = is_in_program(__builtin_return_address(0));
    if (ours && injector.fails(EPERM)) return -1;
    const ssize_t bytes = real(pid, here, n, there, m, flags);
    if (ours && injector.while_reading) std::exchange(injector.while_reading, {})();
    return bytes;
}
ssize_t process_vm_writev(pid_t pid, const iovec* here, unsigned long n, const iovec* there,
                          unsigned long m, unsigned long flags) noexcept {
    static auto* const real = next(&process_vm_writev, "process_vm_writev");
    const bool ours = is_in_program(__builtin_return_address(0));
    return ours && injector.fails(EFAULT) ? -1 : real(pid, here, n, there, m, flags);
}
}

namespace datamover {
namespace {

constexpr double deadline_seconds = 50;

/// Takes what memory the library's pool has left, but for crumbs, so that whoever needs some has to
/// ask the system.
class EmptyPool {
public:
    EmptyPool() {
        fill(slab_bytes);
        fill(least_bytes);
    }

private:
    static constexpr std::int64_t slab_bytes = std::int64_t{4} << 20,
                                  least_bytes = std::int64_t{1} << 13;

    /// In pieces of so many bytes until one comes from a new segment, and then the rest of that.
    void fill(std::int64_t bytes) {
        for (;;) {
            held_.push_back(memory::SegmentPool::of_process().allocate_shared(bytes));
            if (known().insert(held_.back()->segment->name().offset_bytes).second) break;
        }
        if (bytes < slab_bytes)
            held_.push_back(memory::SegmentPool::of_process().allocate_shared(slab_bytes - bytes));
    }
    static std::set<std::int64_t>& known() {
        static std::set<std::int64_t> segments;
        return segments;
    }

    std::vector<memory::AllocationPtr> held_;
};

/// Library arrays, arrays of the user's with long and with short runs, and particles: all that
/// shares memory or reads other processes'.
class Everything {
public:
    explicit Everything(MPI_Comm comm)
        : comm_(comm),
          size_(mpi_test::world_size()),
          rank_(mpi_test::world_rank()),
          n_(40 * size_),
          rows_({n_, n_}, "(block, *)", size_),
          turned_({n_, n_}, "(block, *)", size_, in_reverse()),
          columns_({n_, n_}, "(*, block)", size_) {}

    void arrays() {
        move_library_arrays();
        move_user_arrays(turned_);
        move_user_arrays(columns_);
    }
    void particles() { distribute(); }

private:
    BlockCyclicOptions in_reverse() const {
        BlockCyclicOptions options;
        options.ranks.resize(static_cast<std::size_t>(size_));
        std::iota(options.ranks.rbegin(), options.ranks.rend(), 0);
        return options;
    }

    template <class Visit>
    void visit(const BlockCyclic& layout, Visit&& visit) const {
        const Point shape = layout.local_shape(rank_);
        for (std::int64_t i = 0, k = 0; i < shape[0]; ++i)
            for (std::int64_t j = 0; j < shape[1]; ++j, ++k) {
                const Point global = layout.global_index(rank_, Point{i, j});
                visit(static_cast<std::size_t>(k), global[0] * n_ + global[1]);
            }
    }
    void fill(const BlockCyclic& layout, std::int64_t* values) const {
        visit(layout, [&](std::size_t k, std::int64_t at) { values[k] = at; });
    }
    void expect_filled(const BlockCyclic& layout, const std::int64_t* values) const {
        std::int64_t wrong = 0;
        visit(layout, [&](std::size_t k, std::int64_t at) { wrong += values[k] != at; });
        EXPECT_EQ(wrong, 0);
    }

    static std::int64_t* local(const Array& array) {
        return reinterpret_cast<std::int64_t*>(
            array.origin(array.layout().blocks_of(array.rank()).front()));
    }

    void move_library_arrays() {
        Array from(comm_, rows_, 8), to(comm_, columns_, 8);
        fill(rows_, local(from));
        Mover mover(comm_, redistribute(rows_, columns_), from, to);
        mover.start();
        mover.wait(deadline_seconds);
        expect_filled(columns_, local(to));
    }

    ArrayPart part(const BlockCyclic& layout, std::vector<std::int64_t>& values) const {
        values.resize(static_cast<std::size_t>(layout.local_shape(rank_).product()));
        const BlockMemory block = dense_memory(layout, rank_, 8).blocks.front();
        const UserBlock mine{
            block.block, reinterpret_cast<std::byte*>(values.data()), block.strides_bytes, {}, {}};
        return user_part(layout, {&mine, 1}, 8, ScalarType::int64);
    }

    void move_user_arrays(const BlockCyclic& to_layout) {
        std::vector<std::int64_t> from, to;
        const ArrayPart source = part(rows_, from), destination = part(to_layout, to);
        fill(rows_, from.data());
        Mover mover(comm_, redistribute(rows_, to_layout), source, destination);
        mover.start();
        mover.wait(deadline_seconds);
        expect_filled(to_layout, to.data());
    }

    void distribute() {
        std::vector<std::int32_t> ranks(static_cast<std::size_t>(n_ * n_));
        std::vector<std::int64_t> values(ranks.size());
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            ranks[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(size_));
            values[i] = rank_ * n_ * n_ + static_cast<std::int64_t>(i);
        }
        TargetList targets;
        targets.elems = static_cast<std::int64_t>(ranks.size());
        targets.data = ranks.data();
        MigrationOptions options;
        options.carry.method = "partition";  // "auto" would measure all methods each time
        Migration migration(comm_, targets, options);
        const ElementColumn column{values.data(), 8};
        const auto arrived = migration.move({&column, 1});
        const auto* elems = reinterpret_cast<const std::int64_t*>(arrived.front().data);
        std::int64_t k = 0, wrong = 0;
        for (int source = 0; source < size_; ++source)
            for (std::int64_t i = rank_; i < n_ * n_; i += size_)
                wrong += elems[k++] != source * n_ * n_ + i;
        EXPECT_EQ(k, migration.received());
        EXPECT_EQ(wrong, 0);
    }

    MPI_Comm comm_;
    int size_, rank_;
    std::int64_t n_;
    BlockCyclic rows_, turned_, columns_;
};

using Work = void (Everything::*)();

/// 0 where all went well, else the code of the error.
int outcome_of(MPI_Comm comm, Work work, std::string& text) {
    try {
        (Everything(comm).*work)();
        return 0;
    } catch (const Error& e) {
        text = e.what();
        return static_cast<int>(e.code());
    }
}

int most_of(int mine) {
    mpi_test::begin_step();
    int all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/// Lets call k of one process fail; false where it makes fewer.
bool run_case(Work work, int k, int culprit) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const EmptyPool nothing_left;
    injector = {};
    injector.failing_call = mpi_test::world_rank() == culprit ? k : -1;
    injector.armed = true;
    std::string text;
    const int code = outcome_of(comm, work, text);
    injector.armed = false;
    const bool failed = most_of(injector.failed) != 0;
    const int worst = most_of(code);
    // Whoever waited for it hears of it: those that were through are not held up.
    EXPECT_TRUE(failed || worst == 0) << text;
    if (mpi_test::world_rank() == culprit && worst != 0) {
        EXPECT_NE(code, 0) << "call " << k << " failed here, others were told";
    }
    MPI_Comm_free(&comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    EXPECT_EQ(outcome_of(comm, work, text), 0) << "after call " << k << ": " << text;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
    return failed;
}

/// A process may find memory of a group that the others had not left before, and make fewer calls
/// in one run than in the next.
bool any_run_fails(Work work, int k, int culprit) {
    constexpr int runs = 4;
    for (int run = 0; run < runs; ++run)
        if (run_case(work, k, culprit)) return true;
    return false;
}

class FailingSystemCalls : public ::testing::TestWithParam<Work> {};

TEST_P(FailingSystemCalls, AnotherWayIsFoundOrAllAreTold) {
    set_default_timeout(deadline_seconds);
    const int size = mpi_test::world_size();
    const int step = size > 2 && mpi_test::case_factor() == 1 ? 3 : 1;
    int k = 0;
    for (; any_run_fails(GetParam(), k, k % size); k += step)
        ASSERT_TRUE(mpi_test::holds_everywhere(!HasFailure())) << "at call " << k;
    if (size > 1) {
        EXPECT_GT(k, 5);
    }
}

INSTANTIATE_TEST_SUITE_P(Of, FailingSystemCalls,
                         ::testing::Values(&Everything::arrays, &Everything::particles),
                         [](const auto& work) {
                             return work.param == &Everything::arrays ? "Arrays" : "Particles";
                         });

/// Process 1 gives up, and its memory goes, while process 0 reads there: that has got something,
/// but not what was to be moved.
TEST(ReadingOfAnotherProcess, IsNoSuccessWhereItHasGivenUpMeanwhile) {
    constexpr std::int64_t n = 1 << 14;
    const int size = mpi_test::world_size(), rank = mpi_test::world_rank();
    if (size == 1) return;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    BlockCyclicOptions second_first;
    second_first.ranks.resize(static_cast<std::size_t>(size));
    std::iota(second_first.ranks.begin(), second_first.ranks.end(), 0);
    std::swap(second_first.ranks[0], second_first.ranks[1]);
    const BlockCyclic from({n}, "(cyclic(16384))", size, second_first);
    const BlockCyclic to({n}, "(cyclic(16384))", size);
    auto values = std::make_unique<std::vector<std::int64_t>>(rank < 2 ? n : 0, rank);
    const auto part = [&](const BlockCyclic& layout) {
        const UserBlock mine{dense_memory(layout, rank, 8).blocks.front().block,
                             reinterpret_cast<std::byte*>(values->data()),
                             {8},
                             {},
                             {}};
        return user_part(layout, {&mine, 1}, 8, ScalarType::int64);
    };
    MoverOptions options;
    options.transport = "read:receiver";
    std::unique_ptr<Mover> mover;
    try {
        mover =
            std::make_unique<Mover>(comm, redistribute(from, to), part(from), part(to), options);
    } catch (const Error& e) {  // on all: pretended nodes, or a system that forbids to read
        ASSERT_EQ(e.code(), ErrorCode::unsupported) << e.what();
        MPI_Comm_free(&comm);
        GTEST_SKIP() << e.what();
    }
    MPI_Barrier(MPI_COMM_WORLD);  // who still binds when process 1 gives up would raise that
    int word = 0;
    injector = {};
    if (rank == 0)
        injector.while_reading = [&] {
            MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        };
    if (rank == 1) {
        mover->start();
        MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        mover.reset();
        values.reset();
        MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else if (rank == 0) {
        // It may find the other one's array ready in start.
        EXPECT_THROW(
            {
                mover->start();
                mover->wait(deadline_seconds);
            },
            Error);
    }
    mover.reset();
    MPI_Barrier(MPI_COMM_WORLD);
    // MPICH ends a program that frees a communicator when the notice has come and was not received.
    const auto hear = [&] {
        for (;;) mpi::ProcessGroup::of(comm)->failures().check_while_waiting();
    };
    EXPECT_THROW(hear(), Error);
    MPI_Comm_free(&comm);
}

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}

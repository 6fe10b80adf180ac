// SPDX-License-Identifier: BSD-3-Clause
// Failures in a C++ program: one process cannot continue, and the others get an exception with its
// error from the call that they are in.
// Run: mpiexec -n 4 ./failures
#include <mpi.h>

#include <cstdio>
#include <datamover/datamover.hpp>
#include <string>
#include <vector>

#include "checked.hpp"

namespace {

using datamover::Array;
using datamover::BlockCyclic;
using datamover::Error;
using datamover::ErrorCode;
using datamover::Mover;

const Error no_input(ErrorCode::io, "the input is not there");

/// The error that all processes get from a call in which one cannot take part.
template <class Call>
void expect_on_all(const Call& call, ErrorCode code) {
    try {
        call();
        expect(false, "the call fails");
    } catch (const Error& error) {
        expect(error.code() == code, error.what());
    }
}

/// Collective set-up: process 0 reports that it cannot make the call that the others make.
void calls_of_all(MPI_Comm comm, int rank, int nprocs) {
    const BlockCyclic rows({8, 8}, "(block, *)", nprocs), columns({8, 8}, "(*, block)", nprocs);
    const Array u(comm, rows, sizeof(double)), v(comm, columns, sizeof(double));
    expect_on_all(
        [&] {
            if (rank == 0) Mover::refuse(comm, no_input);
            const Mover mover(comm, redistribute(rows, columns), u, v);
        },
        ErrorCode::io);
    expect_on_all(
        [&] {
            if (rank == 0) datamover::refuse_index_lists(comm, no_input);
            const std::int64_t mine[] = {rank};
            const std::span<const std::int64_t> lists[] = {mine};
            datamover::index_lists(comm, {nprocs}, lists);
        },
        ErrorCode::io);
    // Only this call fails on the others; they can continue.
    Mover(comm, redistribute(rows, columns), u, v)();
}

/// Migrations in which process 0 cannot take part: in one call, and by start and wait.
void elements(MPI_Comm comm, int rank, int nprocs) {
    const std::int32_t next = (rank + 1) % nprocs;
    datamover::TargetList targets;
    targets.elems = 1;
    targets.data = &next;
    datamover::Migration to_next(comm, targets);
    const double value = rank;
    const datamover::ElementColumn column{&value, sizeof value};
    expect_on_all(
        [&] {
            if (rank == 0)
                to_next.refuse(no_input);
            else
                to_next.move({&column, 1});
        },
        ErrorCode::io);
    std::vector<datamover::ElementBuffer> arrived;
    if (rank == 0)
        to_next.start_refused(no_input);
    else
        arrived = to_next.start({&column, 1});
    expect(to_next.in_flight(), "until somebody waits");
    expect_on_all([&] { to_next.wait(); }, ErrorCode::io);
    expect(!to_next.in_flight(), "given up on all");
}

/// A move that one process aborts: processes that have not completed it get an error. Its
/// communicator can no longer be used, so the program duplicates one for it.
void given_up(MPI_Comm all, int rank, int nprocs) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(all, &comm);
    const BlockCyclic rows({64, 64}, "(block, *)", nprocs), columns({64, 64}, "(*, block)", nprocs);
    const Array u(comm, rows, sizeof(double)), v(comm, columns, sizeof(double));
    try {
        Mover mover(comm, redistribute(rows, columns), u, v);
        mover.start();
        if (rank != 0) mover.wait(60);  // returns if all its elements have already arrived
        mover.abort();  // in flight on process 0, as if an exception had skipped the wait
        expect(!mover.in_flight(), "it is over here");
    } catch (const Error& error) {
        expect(rank != 0 && error.code() == ErrorCode::peer_failed, error.what());
    }
    MPI_Comm_free(&comm);
}

/// The default timeout of waits, and whether a progress thread could send messages meanwhile.
void waits() {
    const std::optional<double> before = datamover::default_timeout();
    datamover::set_default_timeout(120);
    expect(datamover::default_timeout() == 120.0, "for all waits that are given no time");
    datamover::set_default_timeout(before);
    int level = 0;
    MPI_Query_thread(&level);
    const datamover::ProgressThread thread;
    expect(level == MPI_THREAD_MULTIPLE || !thread.carries_messages(), "or the program does");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, nprocs = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    calls_of_all(MPI_COMM_WORLD, rank, nprocs);
    elements(MPI_COMM_WORLD, rank, nprocs);
    given_up(MPI_COMM_WORLD, rank, nprocs);
    waits();
    if (rank == 0) std::puts("failures: all processes were told");
    MPI_Finalize();
    return 0;
}

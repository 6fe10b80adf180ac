// SPDX-License-Identifier: BSD-3-Clause
// Threads that may call MPI.
#include "thread_level.hpp"

#include <mpi.h>

#include "checked_call.hpp"

namespace datamover::mpi {
namespace {

int level() {
    // The level is settled when MPI is initialised, which it is here.
    static const int provided = [] {
        int value = MPI_THREAD_SINGLE;
        check(MPI_Query_thread(&value), "MPI_Query_thread");
        return value;
    }();
    return provided;
}

}  // namespace

bool any_thread_may_call() {
    return level() == MPI_THREAD_MULTIPLE;
}

bool may_call() {
    if (level() >= MPI_THREAD_SERIALIZED) return true;
    thread_local const bool is_main = [] {
        int main = 0;
        check(MPI_Is_thread_main(&main), "MPI_Is_thread_main");
        return main != 0;
    }();
    return is_main;
}

bool may_call_unasked() {
    return level() != MPI_THREAD_SERIALIZED && may_call();
}

void check_thread() {
    if (!may_call())
        throw Error(ErrorCode::invalid_state,
                    "MPI was initialised for calls from its main thread only; another thread needs "
                    "MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
}

}  // namespace datamover::mpi

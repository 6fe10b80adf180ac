// SPDX-License-Identifier: BSD-3-Clause
// Check of the examples: ends the program with a message if a condition does not hold.
#pragma once

#include <mpi.h>

#include <cstdio>

/// Checks a result of an example; a process on which it does not hold ends all processes.
inline void expect(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "not so: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

// SPDX-License-Identifier: BSD-3-Clause
// How do these examples end when something is not as they say?
#pragma once

#include <mpi.h>

#include <cstdio>

/// What an example says of its results; a process for which it is not so ends all.
inline void expect(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "not so: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

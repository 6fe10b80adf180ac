// SPDX-License-Identifier: BSD-3-Clause
// Start and end of an application: initializes MPI, reports exceptions, finalizes.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "datamover/error.hpp"

namespace apps {

/// Hands the exit code over: launchers comment on any code but 0, so whoever started this program
/// may have asked for it in a file.
inline int leave(int code, int rank) {
    const char* file = std::getenv("DATAMOVER_STATUS_FILE");
    if (file == nullptr) return code;
    if (rank == 0) std::ofstream(file) << code;
    return 0;
}

/// Ends all processes because of what went wrong on one.
inline void abort_with(int rank, const char* what) {
    std::fprintf(stderr, "error: process %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/// The main function of an application: MPI around `work(arguments)`, which gives the exit code.
template <class Work>
int run_application(int argc, char** argv, Work&& work) {
    // MPI that threads may call is slower for all, so only who needs it asks for it.
    const std::vector<std::string> versions = words_of(argc > 1 ? argv[1] : "");
    const bool threads = std::count(versions.begin(), versions.end(), threaded_version) > 0;
    int rank = 0, code = 1, provided = 0;
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    try {
        code = work(std::vector<std::string>(argv + 1, argv + argc));
    } catch (const BadInput& e) {
        if (rank == 0) std::fprintf(stderr, "error: %s\n", e.what());
    } catch (const datamover::Error& e) {
        // Arrays are made by all processes or none; other errors may be one process's.
        if (e.code() != datamover::ErrorCode::no_memory) abort_with(rank, e.what());
        if (rank == 0) std::fprintf(stderr, "error: %s\n", e.what());
    } catch (const std::bad_alloc&) {
        abort_with(rank, "there is not enough memory");
    } catch (const std::exception& e) {
        abort_with(rank, e.what());
    }
    MPI_Finalize();
    return leave(code, rank);
}

}  // namespace apps

// SPDX-License-Identifier: BSD-3-Clause
// Collective C functions for Fortran, which has communicators as integers.
#include <mpi.h>

#include "memory.hpp"

namespace {

/// Where a process could not say what it brings (`so_far`), all return the code of that.
template <class Call>
int together(int comm, int so_far, Call&& call) {
    const MPI_Comm processes = MPI_Comm_f2c(comm);
    if (const int code = datamover_agree(processes, so_far)) return code;
    return call(processes);
}

}  // namespace

extern "C" {

int datamover_fortran_save(int comm, int so_far, const char* path, const datamover_array* array,
                           const datamover_file_options* options) {
    return together(comm, so_far, [&](MPI_Comm processes) {
        return datamover_save(processes, path, array, options);
    });
}

int datamover_fortran_load(int comm, int so_far, const char* path, const datamover_array* array,
                           const datamover_file_options* options) {
    return together(comm, so_far, [&](MPI_Comm processes) {
        return datamover_load(processes, path, array, options);
    });
}

int datamover_fortran_stream_open(datamover_stream** stream, int comm, int so_far,
                                  const char* address, const datamover_stream_options* options) {
    return together(comm, so_far, [&](MPI_Comm processes) {
        return datamover_stream_open(stream, processes, address, options);
    });
}

int datamover_fortran_stream_connect(datamover_stream_source** source, int comm, int so_far,
                                     const char* address, const datamover_source_options* options) {
    return together(comm, so_far, [&](MPI_Comm processes) {
        return datamover_stream_connect(source, processes, address, options);
    });
}

}  // extern "C"

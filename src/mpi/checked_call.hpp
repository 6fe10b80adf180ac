// SPDX-License-Identifier: BSD-3-Clause
// Checked MPI calls, and checked conversion of 64-bit sizes to int.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <limits>
#include <string_view>

#include "geometry/make_error.hpp"

namespace datamover::mpi {

/// Throws Error(mpi) with MPI's own words when `code` is not MPI_SUCCESS.
inline void check(int code, const char* call) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
    throw make_error(ErrorCode::mpi, call,
                     " failed: ", std::string_view(text, static_cast<std::size_t>(length)));
}

/// Whether a call has failed in this way. Codes are MPI's own; their classes are the standard's.
inline bool is_of_class(int code, int error_class) {
    int found = MPI_SUCCESS;
    return code != MPI_SUCCESS && MPI_Error_class(code, &found) == MPI_SUCCESS &&
           found == error_class;
}

/// A size that MPI wants as an int. Throws unsupported when it does not fit.
inline int to_int(std::int64_t value, const char* what) {
    if (value < 0 || value > std::numeric_limits<int>::max())
        throw make_error(ErrorCode::unsupported, what, " of ", value, " does not fit MPI's int");
    return static_cast<int>(value);
}

}  // namespace datamover::mpi

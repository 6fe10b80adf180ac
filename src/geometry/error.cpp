// SPDX-License-Identifier: BSD-3-Clause
// Errors of the library, and its version.
#include <string_view>

#include "datamover/error.hpp"
#include "datamover/version.h"

namespace datamover {

const char* error_code_name(ErrorCode code) noexcept {
    switch (code) {
        case ErrorCode::invalid_argument:
            return "invalid_argument";
        case ErrorCode::out_of_range:
            return "out_of_range";
        case ErrorCode::wrong_type:
            return "wrong_type";
        case ErrorCode::mismatch:
            return "mismatch";
        case ErrorCode::no_memory:
            return "no_memory";
        case ErrorCode::io:
            return "io";
        case ErrorCode::mpi:
            return "mpi";
        case ErrorCode::peer_failed:
            return "peer_failed";
        case ErrorCode::timeout:
            return "timeout";
        case ErrorCode::invalid_state:
            return "invalid_state";
        case ErrorCode::unsupported:
            return "unsupported";
    }
    return "unknown";
}

}  // namespace datamover

// DATAMOVER_VERSION is the build's.
static_assert(std::string_view(DATAMOVER_VERSION_STRING) == DATAMOVER_VERSION,
              "datamover/version.h says another version than CMakeLists.txt");
#define DATAMOVER_TEXT_(number) #number
#define DATAMOVER_TEXT(number) DATAMOVER_TEXT_(number)
static_assert(std::string_view(DATAMOVER_TEXT(DATAMOVER_VERSION_MAJOR) "." DATAMOVER_TEXT(
                  DATAMOVER_VERSION_MINOR) "." DATAMOVER_TEXT(DATAMOVER_VERSION_PATCH)) ==
                  DATAMOVER_VERSION_STRING,
              "the numbers in datamover/version.h are not those of its string");

const char* datamover_version() {
    return DATAMOVER_VERSION_STRING;
}

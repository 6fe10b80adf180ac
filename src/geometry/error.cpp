// SPDX-License-Identifier: BSD-3-Clause
// Names of the error codes.

#include "datamover/error.hpp"

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

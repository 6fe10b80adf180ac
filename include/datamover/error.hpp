// SPDX-License-Identifier: BSD-3-Clause
// Errors and their codes.
#pragma once

#include <stdexcept>
#include <string>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// The stable kinds of errors. Programs and tests compare codes, never the text of a message.
enum class ErrorCode : int {
    invalid_argument = 1,  ///< an invalid value (a negative shape, a block of zero)
    out_of_range = 2,      ///< an index, region, rank, block or address outside its range
    wrong_type = 3,        ///< element types or element sizes that do not fit each other
    mismatch = 4,          ///< values that must agree differ (shapes, plans, lengths, layouts)
    no_memory = 5,         ///< not enough memory or shared memory, or a given limit is too low
    io = 6,                ///< a file cannot be read or written, or has other contents
    mpi = 7,               ///< an MPI call failed, or MPI is not usable as it was started
    peer_failed = 8,       ///< another process of the operation failed
    timeout = 9,           ///< a timeout expired
    invalid_state = 10,    ///< a call at the wrong time (start twice, use after free)
    unsupported = 11,      ///< a combination that this build or transport does not support
};

/// Return the name of a code as in the documentation, such as "invalid_argument".
const char* error_code_name(ErrorCode code) noexcept;

/// The exception of all errors that the library raises. The message states the wrong value, the
/// process if it matters, and the valid values.
class Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    ErrorCode code() const noexcept { return code_; }

private:
    ErrorCode code_;
};

}  // namespace datamover

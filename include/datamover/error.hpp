// SPDX-License-Identifier: BSD-3-Clause
// Errors and their codes.
#pragma once

#include <stdexcept>
#include <string>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// The stable kinds of failure. Programs and tests match these, never the words of a message.
enum class ErrorCode : int {
    invalid_argument = 1,  ///< a value that makes no sense (a negative shape, a block of zero)
    out_of_range = 2,      ///< an index, region, rank or address outside what it must lie in
    wrong_type = 3,        ///< element types or element sizes that do not fit each other
    mismatch = 4,          ///< things that must agree do not (shapes, plans, lengths, layouts)
    no_memory = 5,         ///< memory, shared memory or a given limit does not suffice
    io = 6,                ///< a file cannot be read or written, or holds something else
    mpi = 7,               ///< an MPI call failed, or MPI is not usable as it was started
    peer_failed = 8,       ///< another process of the operation failed
    timeout = 9,           ///< a deadline passed
    invalid_state = 10,    ///< a call at the wrong time (start twice, use after free)
    unsupported = 11,      ///< a combination that this build or transport cannot do
};

/// The name of a code as it stands in the documentation, such as "invalid_argument".
const char* error_code_name(ErrorCode code) noexcept;

/// Every error that the library raises. The message says what was wrong with which value, on which
/// process where that matters, and what would be right.
class Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    ErrorCode code() const noexcept { return code_; }

private:
    ErrorCode code_;
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// C interface: errors.
#include <cstring>

#include "handles.hpp"

namespace datamover::capi {
namespace {

// An array, so that keeping a message cannot fail itself; longer messages are cut.
thread_local char last_message[4096] = "";

}  // namespace

int fail(ErrorCode code, const char* message) noexcept {
    const std::size_t length = std::min(std::strlen(message), std::size(last_message) - 1);
    std::memmove(last_message, message, length);
    last_message[length] = '\0';
    return static_cast<int>(code);
}

}  // namespace datamover::capi

const char* datamover_error_message(void) {
    return datamover::capi::last_message;
}

int datamover_error_set(int code, const char* message) {
    return datamover::capi::fail(static_cast<datamover::ErrorCode>(code), message ? message : "");
}

int datamover_agree(MPI_Comm comm, int code) {
    using namespace datamover;
    return capi::guarded([&] {
        capi::collectively(comm, [&] {
            if (code != DATAMOVER_SUCCESS)
                throw Error(static_cast<ErrorCode>(code), std::string(capi::last_message));
            return 0;
        });
    });
}

const char* datamover_error_name(int code) {
    return code == DATAMOVER_SUCCESS
               ? "success"
               : datamover::error_code_name(static_cast<datamover::ErrorCode>(code));
}

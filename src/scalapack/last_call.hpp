// SPDX-License-Identifier: BSD-3-Clause
// The last call with ScaLAPACK's arguments, for later queries.
#pragma once

#include <exception>
#include <new>

#include "datamover/datamover.h"
#include "datamover/error.hpp"

namespace datamover {

/// Of a thread's last call.
struct LastCall {
    int code = 0;      ///< 0: it succeeded
    int argument = 0;  ///< the position of the wrong one, as datamover_gemr2d_argument tells it
};
LastCall& last_call() noexcept;

/// Runs a call, which may throw; its code and message stay.
template <class Call>
int remembered(Call&& call) noexcept {
    last_call() = {};
    int code = 0;
    try {
        code = call();
    } catch (const Error& e) {
        code = datamover_error_set(static_cast<int>(e.code()), e.what());
    } catch (const std::bad_alloc&) {
        code = datamover_error_set(DATAMOVER_NO_MEMORY, "out of memory");
    } catch (const std::exception& e) {
        code = datamover_error_set(DATAMOVER_INVALID_STATE, e.what());
    }
    return last_call().code = code;
}

/// Tells ScaLAPACK's error handler of a call that failed.
void tell_pxerbla(int code, const char* routine, int context);

}  // namespace datamover

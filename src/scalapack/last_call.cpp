// SPDX-License-Identifier: BSD-3-Clause
// The last call with ScaLAPACK's arguments, and its error.
#include "last_call.hpp"

#include <cstddef>
#include <cstring>

#include "blacs_integers.hpp"
#include "datamover/datamover_scalapack.h"

// ScaLAPACK's error handler, of the ScaLAPACK that the program is linked with. A program may have
// one of its own.
extern "C" void pxerbla_(const datamover::BlacsInt* context, const char* routine,
                         const datamover::BlacsInt* argument, std::size_t routine_length);

namespace datamover {

LastCall& last_call() noexcept {
    thread_local LastCall last;
    return last;
}

void tell_pxerbla(int code, const char* routine, int context) {
    if (code == 0) return;
    const BlacsInt argument = last_call().argument, in_context = context;
    pxerbla_(&in_context, routine, &argument, std::strlen(routine));
}

}  // namespace datamover

int datamover_gemr2d_argument(void) {
    return datamover::last_call().argument;
}

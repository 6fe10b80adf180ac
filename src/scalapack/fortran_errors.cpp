// SPDX-License-Identifier: BSD-3-Clause
// The error of the last call, for Fortran.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "blacs_integers.hpp"
#include "datamover/datamover.h"
#include "datamover/datamover_scalapack.h"
#include "last_call.hpp"

using datamover::BlacsInt;

extern "C" {
DATAMOVER_PUBLIC_BEGIN

void datamover_gemr2d_error_(BlacsInt* code, BlacsInt* argument, char* text,
                             std::size_t text_length) {
    *code = datamover::last_call().code;
    *argument = datamover_gemr2d_argument();
    const char* message = *code == 0 ? "" : datamover_error_message();
    const std::size_t copied = std::min(std::strlen(message), text_length);
    std::memcpy(text, message, copied);
    std::memset(text + copied, ' ', text_length - copied);
}

DATAMOVER_PUBLIC_END
}

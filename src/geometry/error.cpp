// SPDX-License-Identifier: BSD-3-Clause
// Errors of the library, and its version.
#include <array>
#include <cstddef>
#include <string_view>

#include "datamover/error.hpp"
#include "datamover/version.h"

namespace datamover {

const char* error_code_name(ErrorCode code) noexcept {
    static constexpr std::array names{
        "invalid_argument", "out_of_range", "wrong_type",    "mismatch",   "no_memory", "io", "mpi",
        "peer_failed",      "timeout",      "invalid_state", "unsupported"};
    static_assert(names.size() == static_cast<std::size_t>(ErrorCode::unsupported));
    const auto number = static_cast<std::size_t>(code);
    return number < 1 || number > names.size() ? "unknown" : names[number - 1];
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

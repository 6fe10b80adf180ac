// SPDX-License-Identifier: BSD-3-Clause
// The version of the library.
#include "datamover/version.h"

#include <string_view>

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

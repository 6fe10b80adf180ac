// SPDX-License-Identifier: BSD-3-Clause
// The words for two processes that passed different values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "make_error.hpp"

namespace datamover {

/// True on every process:
/// `processes 0 and 2 passed different options: op="add" on process 0, op="min" on process 2`.
inline std::string difference_text(std::string_view verb, std::string_view what, std::int64_t first,
                                   std::string_view of_first, std::int64_t second,
                                   std::string_view of_second) {
    const std::string values = of_first == of_second ? concat("both ", of_first)
                                                     : concat(of_first, " on process ", first, ", ",
                                                              of_second, " on process ", second);
    return concat("processes ", first, " and ", second, " ", verb, " different ", what, ": ",
                  values);
}

}  // namespace datamover

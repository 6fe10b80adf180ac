// SPDX-License-Identifier: BSD-3-Clause
// Range checks for numbers of processes, blocks and ranks of layouts.
#pragma once

#include <cstdint>

namespace datamover::layout {

/// MPI counts processes in an int.
inline constexpr std::int64_t most_processes = 2147483647;

/// Throws invalid_argument unless 1 <= nprocs <= 2^31 - 1.
void check_nprocs(std::int64_t nprocs);

[[noreturn]] void refuse_number(const char* what, std::int64_t number, std::int64_t end);

/// Throws out_of_range unless 0 <= number < end: "block 7 is not in 0..5".
inline void check_number(const char* what, std::int64_t number, std::int64_t end) {
    if (number < 0 || number >= end) refuse_number(what, number, end);
}

}  // namespace datamover::layout

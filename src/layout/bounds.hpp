// SPDX-License-Identifier: BSD-3-Clause
// Checks that layouts share: of numbers of processes, blocks and ranks, and of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "datamover/point.hpp"
#include "geometry/make_error.hpp"

namespace datamover::layout {

/// MPI counts processes in an int.
inline constexpr std::int64_t most_processes = 2147483647;

/// Throws invalid_argument unless 1 <= nprocs <= 2^31 - 1.
inline void check_nprocs(std::int64_t nprocs) {
    if (nprocs < 1 || nprocs > most_processes)
        throw make_error(ErrorCode::invalid_argument, "a layout for ", nprocs,
                         " processes; 1 to 2^31 - 1 are possible, as many as MPI can number");
}

[[noreturn]] inline void refuse_number(const char* what, std::int64_t number, std::int64_t end) {
    throw make_error(ErrorCode::out_of_range, what, " ", number,
                     end > 0 ? " is not in 0.." + std::to_string(end - 1) : " of none");
}

/// Throws out_of_range unless 0 <= number < end: "block 7 is not in 0..5".
inline void check_number(const char* what, std::int64_t number, std::int64_t end) {
    if (number < 0 || number >= end) refuse_number(what, number, end);
}

/// Returns `make()`; throws no_memory if memory is short.
template <class Make>
auto within_memory(std::size_t blocks, Make&& make) {
    const auto refuse = [&] {
        return make_error(ErrorCode::no_memory, "no memory for a floor plan of ", blocks,
                          " blocks");
    };
    try {
        return make();
    } catch (const std::bad_alloc&) {
        throw refuse();
    } catch (const std::length_error&) {
        throw refuse();
    }
}

/// The number of elements of an array. Throws invalid_argument for a shape without dimensions or
/// with a negative extent; `kind` is that of the layout.
std::int64_t checked_elems(const Point& shape, const char* kind);

}  // namespace datamover::layout

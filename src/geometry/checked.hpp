// SPDX-License-Identifier: BSD-3-Clause
// Overflow-checked arithmetic on coordinates.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "make_error.hpp"

namespace datamover {

constexpr std::int64_t largest_elem_bytes = std::int64_t{1} << 40;
/// Addresses stay below about 2^62 in magnitude, so that the distance of two, an element behind
/// either, and twice a stride still fit into 64 bits.
constexpr std::int64_t largest_address = (std::int64_t{1} << 62) - 2 * largest_elem_bytes;

}  // namespace datamover

namespace datamover::geometry {

[[noreturn]] inline void throw_overflow(std::int64_t a, const char* sign, std::int64_t b) {
    throw make_error(ErrorCode::out_of_range, a, " ", sign, " ", b,
                     " does not fit 64 bits; use smaller coordinates");
}

/// The sum; throws out_of_range when it does not fit.
inline std::int64_t add(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) throw_overflow(a, "+", b);
    return result;
}

/// The difference; throws out_of_range when it does not fit.
inline std::int64_t subtract(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(a, b, &result)) throw_overflow(a, "-", b);
    return result;
}

/// The product; throws out_of_range when it does not fit.
inline std::int64_t multiply(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) throw_overflow(a, "*", b);
    return result;
}

/// Holds the product of any two coordinates, and sums of such.
__extension__ typedef __int128 Wide;

/// The sum and the product of two integers, the first not negative and, for the product, neither;
/// the largest integer where that is smaller.
inline std::int64_t bounded_add(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    return __builtin_add_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max()
                                                 : result;
}
inline std::int64_t bounded_multiply(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max()
                                                 : result;
}

/// The quotient rounded down, and rounded up. The divisor is positive.
inline std::int64_t divide_down(std::int64_t a, std::int64_t b) {
    return a / b - (a % b < 0 ? 1 : 0);
}
inline std::int64_t divide_up(std::int64_t a, std::int64_t b) {
    return a / b + (a % b > 0 ? 1 : 0);
}

}  // namespace datamover::geometry

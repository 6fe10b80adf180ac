// SPDX-License-Identifier: BSD-3-Clause
// Conversion of 8- and 16-bit floats.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace datamover::scalar {

/// A float of `exponent_bits` and `mantissa_bits` behind a sign, as IEEE 754 has them; a `finite`
/// one has no infinities, and one NaN in place of the largest number.
template <class Word, int exponent_bits, int mantissa_bits, bool finite>
struct SmallFloat {
    Word bits;

    static constexpr int mantissa = mantissa_bits;
    static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
    static constexpr std::uint32_t magnitude_mask =
        (std::uint32_t{1} << (exponent_bits + mantissa_bits)) - 1;
    /// The largest magnitude that is a number, and what stands for all beyond it.
    static constexpr std::uint32_t infinity =
        finite ? magnitude_mask : magnitude_mask - ((std::uint32_t{1} << mantissa_bits) - 1);
    static constexpr std::uint32_t largest = infinity - 1;
    static constexpr std::uint32_t nan =
        finite ? magnitude_mask : infinity | std::uint32_t{1} << (mantissa_bits - 1);
};

using Float16 = SmallFloat<std::uint16_t, 5, 10, false>;
using BFloat16 = SmallFloat<std::uint16_t, 8, 7, false>;
using Float8E4M3 = SmallFloat<std::uint8_t, 4, 3, true>;
using Float8E5M2 = SmallFloat<std::uint8_t, 5, 2, false>;

template <class T>
struct IsSmallFloat : std::false_type {};
template <class Word, int e, int m, bool finite>
struct IsSmallFloat<SmallFloat<Word, e, m, finite>> : std::true_type {};
template <class T>
inline constexpr bool is_small_float = IsSmallFloat<T>::value;

/// The same number as a float: always exact. Does not depend on how the processor treats denormals.
template <class Small>
inline float to_float(Small value) {
    constexpr int shift = 23 - Small::mantissa;
    constexpr std::uint32_t bias_step = std::uint32_t{127 - Small::bias} << 23;
    const std::uint32_t word = value.bits;
    const std::uint32_t magnitude = word & Small::magnitude_mask;
    const std::uint32_t sign = (word & ~Small::magnitude_mask) != 0 ? 0x80000000u : 0u;
    const bool special = magnitude > Small::largest;
    const bool tiny = magnitude >> Small::mantissa == 0;
    std::uint32_t result = (magnitude << shift) + bias_step;
    if constexpr (Small::bias != 127) {
        // A number without its leading one: that is added as one more step, then taken off again.
        constexpr std::uint32_t leading = bias_step + (1u << 23);
        const float without =
            std::bit_cast<float>(result + (1u << 23)) - std::bit_cast<float>(leading);
        if (tiny) result = std::bit_cast<std::uint32_t>(without);
    }
    if (special)
        result = magnitude == Small::infinity && Small::infinity != Small::nan
                     ? 0x7F800000u
                     : 0x7FC00000u | (magnitude << shift & 0x3FFFFFu);
    return std::bit_cast<float>(result | sign);
}

/// The nearest number, the even one of two as near; beyond the largest: infinity, or NaN for a type
/// without infinities. `Wide` is float or double.
template <class Small, class Wide>
inline Small round_to(Wide value) {
    using Word = std::conditional_t<sizeof(Wide) == 8, std::uint64_t, std::uint32_t>;
    constexpr int wide_mantissa = sizeof(Wide) == 8 ? 52 : 23;
    constexpr int wide_bias = sizeof(Wide) == 8 ? 1023 : 127;
    constexpr int width = 8 * sizeof(Wide);
    constexpr int shift = wide_mantissa - Small::mantissa;
    constexpr Word wide_infinity = ((Word{1} << (width - 1 - wide_mantissa)) - 1) << wide_mantissa;
    /// The exponent of numbers from which on a leading one stands in the small type.
    constexpr int first_normal = wide_bias - Small::bias + 1;
    const auto word = std::bit_cast<Word>(value);
    const Word magnitude = word & ~(Word{1} << (width - 1));
    const std::uint32_t sign =
        word >> (width - 1) != 0 ? Small::magnitude_mask + 1 : std::uint32_t{0};
    auto rounded = [](Word a, int by) {
        return (a + ((Word{1} << (by - 1)) - 1 + ((a >> by) & 1))) >> by;
    };
    const int exponent = static_cast<int>(magnitude >> wide_mantissa);
    Word result = 0;
    if (magnitude > wide_infinity) {
        result = Small::nan;
    } else if (exponent >= first_normal || Small::bias == wide_bias) {
        constexpr Word less = static_cast<Word>(first_normal - 1) << wide_mantissa;
        result = rounded(magnitude - less, shift);
        if (result > Small::largest) result = Small::infinity;
    } else if (const int below = first_normal - exponent; below <= Small::mantissa + 1) {
        const Word ones = (Word{1} << wide_mantissa) - 1;
        result = rounded((magnitude & ones) | (ones + 1), shift + below);
    }
    using Bits = decltype(Small::bits);
    return {static_cast<Bits>(static_cast<std::uint32_t>(result) | sign)};
}

}  // namespace datamover::scalar

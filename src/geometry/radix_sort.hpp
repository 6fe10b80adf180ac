// SPDX-License-Identifier: BSD-3-Clause
// Stable sort by whole numbers, digit by digit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace datamover::geometry {

/// Sorts values by key(value), of type std::int64_t; equal ones keep their order. O(n) for each 11
/// bits in which keys differ, and O(n) of memory.
template <class T, class Key>
void sort_by(std::span<T> values, Key key) {
    constexpr std::size_t least_digits_pay = 1024;
    constexpr int digit_bits = 11;
    constexpr std::size_t buckets = std::size_t{1} << digit_bits;
    if (std::ranges::is_sorted(values, {}, key)) return;
    if (values.size() < least_digits_pay) {
        std::ranges::stable_sort(values, {}, key);
        return;
    }
    const auto number = [&](const T& value) {
        return static_cast<std::uint64_t>(std::invoke(key, value));
    };
    const auto [least, most] = std::ranges::minmax_element(values, {}, key);
    const std::uint64_t base = number(*least), range = number(*most) - base;
    std::uint64_t differing_bits = 0;
    for (const T& value : values) differing_bits |= number(value) - base;
    std::vector<T> sorted(values.size());
    std::span<T> from = values, to = sorted;
    // Addresses are multiples of the size of an element.
    for (int shift = std::countr_zero(differing_bits); shift < 64 && range >> shift != 0;
         shift += digit_bits) {
        const auto digit = [&](const T& value) {
            return ((number(value) - base) >> shift) & (buckets - 1);
        };
        std::size_t start[buckets] = {};
        for (const T& value : from) ++start[digit(value)];
        std::size_t at = 0;
        for (std::size_t& s : start) at += std::exchange(s, at);
        for (const T& value : from) to[start[digit(value)]++] = value;
        std::swap(from, to);
    }
    if (from.data() != values.data()) std::ranges::copy(from, values.begin());
}

}  // namespace datamover::geometry

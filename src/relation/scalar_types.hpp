// SPDX-License-Identifier: BSD-3-Clause
// C++ types of the scalar types, with conversion and combination.
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "datamover/element_update.hpp"
#include "small_floats.hpp"

namespace datamover::scalar {

/// Whether a type is a float of 8 or 16 bits, which is computed with as a float of 32.
constexpr bool is_small(ScalarType type) {
    return type >= ScalarType::float16;
}

/// NumPy's bool: one byte, 0 or 1.
struct Boolean {
    std::uint8_t value;
};

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::true_type {};
template <class T>
inline constexpr bool is_complex = IsComplex<T>::value;
template <class T>
inline constexpr bool is_boolean = std::is_same_v<T, Boolean>;

template <class T>
inline T load(const char* p) {
    T value;
    std::memcpy(&value, p, sizeof(T));
    return value;
}
template <class T>
inline void store(char* p, T value) {
    std::memcpy(p, &value, sizeof(T));
}

/// Out of range and NaN give the lowest value, as the processor's own conversion does.
template <class To, class From>
inline To integer_from_floating(From value) {
    if constexpr (std::is_unsigned_v<To>) {
        constexpr From top = 2 * static_cast<From>(To{1} << (sizeof(To) * 8 - 1));
        return value > From{-1} && value < top ? static_cast<To>(value) : To{0};
    } else {
        constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
        return value >= low && value < -low ? static_cast<To>(value)
                                            : std::numeric_limits<To>::min();
    }
}

/// As NumPy's astype: complex to real drops the imaginary part, anything to bool asks for non-zero.
template <class To, class From>
inline To convert(From value) {
    if constexpr (std::is_same_v<To, From>)
        return value;
    else if constexpr (is_small_float<From>)
        return convert<To>(to_float(value));
    else if constexpr (is_boolean<From>)
        return convert<To>(value.value != 0 ? std::uint8_t{1} : std::uint8_t{0});
    else if constexpr (is_boolean<To>)
        return Boolean{static_cast<std::uint8_t>(value != From{} ? 1 : 0)};
    else if constexpr (is_complex<From> && is_complex<To>)
        return To(static_cast<typename To::value_type>(value.real()),
                  static_cast<typename To::value_type>(value.imag()));
    else if constexpr (is_complex<From>)
        return convert<To>(value.real());
    else if constexpr (std::is_same_v<To, Float16> && std::is_same_v<From, double>)
        return round_to<To>(value);  // at once, as NumPy does; ml_dtypes rounds to a float first
    else if constexpr (is_small_float<To>)
        return round_to<To>(convert<float>(value));
    else if constexpr (is_complex<To>)
        return To(convert<typename To::value_type>(value), 0);
    else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
        return integer_from_floating<To>(value);
    else
        return static_cast<To>(value);
}

template <class T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;

template <class T>
inline T add(T a, T b) {
    if constexpr (is_boolean<T>)
        return Boolean{static_cast<std::uint8_t>(a.value | b.value)};
    else if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    else if constexpr (is_small_float<T>)
        return round_to<T>(to_float(a) + to_float(b));
    else
        return a + b;
}

template <class T>
inline T multiply(T a, T b) {
    if constexpr (is_boolean<T>)
        return Boolean{static_cast<std::uint8_t>(a.value & b.value)};
    else if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    else if constexpr (is_small_float<T>)
        return round_to<T>(to_float(a) * to_float(b));
    else if constexpr (is_complex<T>)
        return T(a.real() * b.real() - a.imag() * b.imag(),
                 a.real() * b.imag() + a.imag() * b.real());
    else
        return a * b;
}

template <class T>
inline bool is_nan(T a) {
    if constexpr (is_complex<T>)
        return a.real() != a.real() || a.imag() != a.imag();
    else if constexpr (is_small_float<T>)
        return is_nan(to_float(a));
    else
        return a != a;
}

/// Complex numbers are ordered by real, then by imaginary part, as NumPy orders them.
template <class T>
inline bool less(T a, T b) {
    if constexpr (is_complex<T>)
        return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag());
    else if constexpr (is_small_float<T>)
        return to_float(a) < to_float(b);
    else
        return a < b;
}

template <class T>
inline T minimum(T a, T b) {
    if constexpr (is_boolean<T>)
        return multiply(a, b);
    else if constexpr (std::is_integral_v<T>)
        return a < b ? a : b;
    else
        return less(b, a) || is_nan(b) ? (is_nan(a) ? a : b) : a;
}

template <class T>
inline T maximum(T a, T b) {
    if constexpr (is_boolean<T>)
        return add(a, b);
    else if constexpr (std::is_integral_v<T>)
        return a > b ? a : b;
    else
        return less(a, b) || is_nan(b) ? (is_nan(a) ? a : b) : a;
}

template <Op op, class T>
inline T combine(T a, T b) {
    if constexpr (op == Op::add)
        return add(a, b);
    else if constexpr (op == Op::multiply)
        return multiply(a, b);
    else if constexpr (op == Op::minimum)
        return minimum(a, b);
    else if constexpr (op == Op::maximum)
        return maximum(a, b);
    else
        return b;
}

template <class... Types>
struct TypeList {};
/// In the order of ScalarType, which begins with opaque.
using WideTypes = TypeList<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                           std::uint16_t, std::uint32_t, std::uint64_t, float, double,
                           std::complex<float>, std::complex<double>, Boolean>;
using SmallTypes = TypeList<Float16, BFloat16, Float8E4M3, Float8E5M2>;

/// Calls f.template operator()<T>() for the n-th type of a list, the last one if it has no n-th.
template <class F, class T, class... Others>
constexpr auto with_nth_type(int n, F&& f, TypeList<T, Others...>) {
    if constexpr (sizeof...(Others) > 0)
        if (n != 0) return with_nth_type(n - 1, f, TypeList<Others...>());
    return f.template operator()<T>();
}

/// Calls f.template operator()<T>() for the C++ type of a float of 8 or 16 bits.
template <class F>
constexpr auto with_small_type(ScalarType type, F&& f) {
    return with_nth_type(static_cast<int>(type) - static_cast<int>(ScalarType::float16), f,
                         SmallTypes());
}

/// Calls f.template operator()<T>() for the C++ type of any other scalar type but opaque.
template <class F>
constexpr auto with_wide_type(ScalarType type, F&& f) {
    return with_nth_type(static_cast<int>(type) - static_cast<int>(ScalarType::int8), f,
                         WideTypes());
}

template <class F>
constexpr auto with_type(ScalarType type, F&& f) {
    return is_small(type) ? with_small_type(type, f) : with_wide_type(type, f);
}

}  // namespace datamover::scalar

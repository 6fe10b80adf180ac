// SPDX-License-Identifier: BSD-3-Clause
// Loops that convert, scale or combine a row of scalars.
#include <complex>

#include "element_mover.hpp"
#include "scalar_types.hpp"

namespace datamover {
namespace {

using scalar::load;
using scalar::store;

template <class From, class To>
void convert_loop(const char* source, std::int64_t step, char* buffer, std::int64_t n) {
    constexpr std::int64_t from = sizeof(From);
    constexpr std::int64_t to = sizeof(To);
    if (step == from) {
        for (std::int64_t i = 0; i < n; ++i)
            store(buffer + i * to, scalar::convert<To>(load<From>(source + i * from)));
    } else {
        for (std::int64_t i = 0; i < n; ++i)
            store(buffer + i * to, scalar::convert<To>(load<From>(source + i * step)));
    }
}

template <Op op, class T, bool with_beta>
inline T combined(T in_place, T arriving, T beta) {
    if constexpr (with_beta)
        return scalar::add(scalar::multiply(beta, in_place), arriving);
    else
        return scalar::combine<op>(in_place, arriving);
}

template <Op op, class T, bool with_beta>
void combine_loop(const char* source, std::int64_t source_step, char* destination,
                  std::int64_t destination_step, std::int64_t n, std::complex<double> factor) {
    constexpr std::int64_t size = sizeof(T);
    const T beta = scalar::convert<T>(factor);
    if (source_step == size && destination_step == size) {
        for (std::int64_t i = 0; i < n; ++i) {
            char* d = destination + i * size;
            store(d, combined<op, T, with_beta>(load<T>(d), load<T>(source + i * size), beta));
        }
    } else {
        for (std::int64_t i = 0; i < n; ++i) {
            char* d = destination + i * destination_step;
            store(d,
                  combined<op, T, with_beta>(load<T>(d), load<T>(source + i * source_step), beta));
        }
    }
}

template <Op op, class T, bool with_beta>
void combine_listed_loop(const char* source, const std::int64_t* source_at, char* destination,
                         const std::int64_t* destination_at, std::int64_t n,
                         std::complex<double> factor) {
    const T beta = scalar::convert<T>(factor);
    for (std::int64_t i = 0; i < n; ++i) {
        char* d = destination + destination_at[i];
        store(d, combined<op, T, with_beta>(load<T>(d), load<T>(source + source_at[i]), beta));
    }
}

template <class T>
void scale_loop(char* buffer, std::int64_t n, std::complex<double> factor, bool conjugate) {
    constexpr std::int64_t size = sizeof(T);
    const T alpha = scalar::convert<T>(factor);
    const bool scales = factor != std::complex<double>{1.0, 0.0};
    for (std::int64_t i = 0; i < n; ++i) {
        T value = load<T>(buffer + i * size);
        if constexpr (scalar::is_complex<T>)
            if (conjugate) value = std::conj(value);
        if (scales) value = scalar::multiply(alpha, value);
        store(buffer + i * size, value);
    }
}

/// Between types that are no small floats.
ConvertRow wide_row(ScalarType from, ScalarType to) {
    return scalar::with_wide_type(from, [&]<class From>() {
        return scalar::with_wide_type(
            to, []<class To>() -> ConvertRow { return convert_loop<From, To>; });
    });
}

/// From a small float to a float of 32 bits, and from Wide to a small float.
ConvertRow widening_row(ScalarType from) {
    return scalar::with_small_type(
        from, []<class From>() -> ConvertRow { return convert_loop<From, float>; });
}
template <class Wide>
ConvertRow rounding_row(ScalarType to) {
    return scalar::with_small_type(to,
                                   []<class To>() -> ConvertRow { return convert_loop<Wide, To>; });
}

/// Small floats of one type, as they are.
ConvertRow copy_row(ScalarType type) {
    return scalar_bytes(type) == 1 ? convert_loop<std::uint8_t, std::uint8_t>
                                   : convert_loop<std::uint16_t, std::uint16_t>;
}

/// Calls make.operator()<op, with_beta>() for the combination.
template <class Make>
auto with_op(Op op, bool with_beta, Make&& make) {
    switch (op) {
        case Op::add:
            return with_beta ? make.template operator()<Op::add, true>()
                             : make.template operator()<Op::add, false>();
        case Op::multiply:
            return make.template operator()<Op::multiply, false>();
        case Op::minimum:
            return make.template operator()<Op::minimum, false>();
        case Op::maximum:
            return make.template operator()<Op::maximum, false>();
        case Op::replace:
            break;
    }
    return make.template operator()<Op::replace, false>();
}

}  // namespace

Conversion conversion(ScalarType from, ScalarType to) {
    using scalar::is_small;
    constexpr std::int64_t float_bytes = 4;
    const bool is_double = from == ScalarType::float64 || from == ScalarType::complex128;
    if (!is_small(from) && !is_small(to)) return {wide_row(from, to)};
    if (from == to) return {copy_row(from)};
    if (is_small(from) && to == ScalarType::float32) return {widening_row(from)};
    if (is_small(from))
        return {widening_row(from),
                is_small(to) ? rounding_row<float>(to) : wide_row(ScalarType::float32, to),
                float_bytes};
    if (from == ScalarType::float32) return {rounding_row<float>(to)};
    if (from == ScalarType::float64) return {rounding_row<double>(to)};
    if (is_double)
        return {wide_row(from, ScalarType::float64), rounding_row<double>(to), 2 * float_bytes};
    return {wide_row(from, ScalarType::float32), rounding_row<float>(to), float_bytes};
}

CombineRow combine_row(Op op, ScalarType type, bool with_beta) {
    return scalar::with_type(type, [&]<class T>() {
        return with_op(op, with_beta,
                       []<Op o, bool beta>() -> CombineRow { return combine_loop<o, T, beta>; });
    });
}

CombineListed combine_listed(Op op, ScalarType type, bool with_beta) {
    return scalar::with_type(type, [&]<class T>() {
        return with_op(op, with_beta, []<Op o, bool beta>() -> CombineListed {
            return combine_listed_loop<o, T, beta>;
        });
    });
}

ScaleRow scale_row(ScalarType type) {
    return scalar::with_type(type, [&]<class T>() -> ScaleRow { return scale_loop<T>; });
}

}  // namespace datamover

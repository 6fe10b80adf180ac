// SPDX-License-Identifier: BSD-3-Clause
// Reading the keys of elements, of any number type.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "datamover/targets.hpp"
#include "geometry/make_error.hpp"
#include "relation/scalar_types.hpp"

namespace datamover::distribute {

template <class T>
T key_at(const ElementKeys& keys, std::int64_t elem, std::int64_t dim = 0) {
    T value;
    std::memcpy(&value,
                static_cast<const std::byte*>(keys.data) + elem * keys.stride_bytes +
                    dim * static_cast<std::int64_t>(sizeof(T)),
                sizeof(T));
    return value;
}

/// Calls f.operator()<T>() with the type of integer keys.
template <class F>
void with_integer(ScalarType type, F&& f) {
    scalar::with_type(type, [&]<class T>() {
        if constexpr (std::is_integral_v<T>)
            f.template operator()<T>();
        else
            throw make_error(ErrorCode::wrong_type, "keys must be integers, not ",
                             scalar_name(type));
    });
}

/// Likewise for real numbers, integers included.
template <class F>
void with_real(ScalarType type, F&& f) {
    scalar::with_type(type, [&]<class T>() {
        if constexpr (std::is_arithmetic_v<T>)
            f.template operator()<T>();
        else
            throw make_error(ErrorCode::wrong_type, "keys must be real numbers, not ",
                             scalar_name(type));
    });
}

inline void check_dims(const ElementKeys& keys, std::size_t dims) {
    if (keys.dims != static_cast<std::int64_t>(dims))
        throw make_error(ErrorCode::mismatch, "keys of ", keys.dims,
                         " numbers were given, the map wants ", dims);
}

}  // namespace datamover::distribute

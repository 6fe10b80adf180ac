// SPDX-License-Identifier: BSD-3-Clause
// Keys of elements, of any number type, and binary search among ascending splitters.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "datamover/targets.hpp"
#include "geometry/make_error.hpp"
#include "relation/scalar_types.hpp"

namespace datamover::distribute {

/// Ascending values, each as the least key of its kind that is not below it, so that comparing
/// never rounds. Key kinds: 64-bit integers with and without a sign, doubles.
class Splitters {
public:
    /// Number is double, std::int64_t or std::uint64_t. Throws invalid_argument where values do not
    /// ascend or are no numbers.
    template <class Number>
    explicit Splitters(const std::vector<Number>& values);

    /// How many values are not above the key; TargetMap::no_target for NaN.
    void evaluate(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                  std::int64_t* targets) const;

private:
    template <class Key>
    struct Least {
        std::int64_t below_all = 0;  ///< values that no key of this kind is below
        std::vector<Key> keys;       ///< of the others, but for those that no key reaches
    };
    template <class Key, class Number>
    static Least<Key> least_keys(const std::vector<Number>& values);

    Least<std::int64_t> signed_;
    Least<std::uint64_t> unsigned_;
    Least<double> real_;
};

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

// SPDX-License-Identifier: BSD-3-Clause
// Binary search of keys among ascending splitters, of any number types.
#include "splitters.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"

namespace datamover::distribute {
namespace {

/// Wide enough for all 64-bit integers.
using geometry::Wide;

/// The least integer that is not below a value; beyond 64 bits any integer there.
template <class Number>
Wide rounded_up(Number value) {
    if constexpr (std::is_integral_v<Number>) {
        return value;
    } else {
        constexpr double far = 0x1p100;
        return static_cast<Wide>(std::ceil(std::clamp(value, -far, far)));
    }
}

/// The least double that is not below a value.
template <class Number>
double double_from(Number value) {
    const auto near = static_cast<double>(value);
    if constexpr (std::is_integral_v<Number>)
        if (static_cast<Wide>(near) < Wide{value})
            return std::nextafter(near, std::numeric_limits<double>::infinity());
    return near;
}

template <class Number>
void check(const std::vector<Number>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        if constexpr (std::is_floating_point_v<Number>)
            if (std::isnan(values[i]))
                throw make_error(ErrorCode::invalid_argument, "splitter ", i, " is not a number");
        if (i > 0 && values[i] < values[i - 1])
            throw make_error(ErrorCode::invalid_argument, "splitters must ascend; number ", i,
                             " is ", values[i], ", the one before ", values[i - 1]);
    }
}

template <class Key, class T, class Least>
void count_values(const Least& least, const ElementKeys& keys, std::int64_t first,
                  std::int64_t count, std::int64_t* targets) {
    for (std::int64_t i = 0; i < count; ++i) {
        const auto key = static_cast<Key>(key_at<T>(keys, first + i));
        const auto above = std::upper_bound(least.keys.begin(), least.keys.end(), key);
        targets[i] = least.below_all + (above - least.keys.begin());
        if constexpr (std::is_floating_point_v<T>)
            if (std::isnan(key)) targets[i] = TargetMap::no_target;
    }
}

}  // namespace

template <class Key, class Number>
Splitters::Least<Key> Splitters::least_keys(const std::vector<Number>& values) {
    Least<Key> least;
    for (const Number value : values) {
        if constexpr (std::is_floating_point_v<Key>) {
            least.keys.push_back(double_from(value));
        } else {
            const Wide key = rounded_up(value);
            if (key <= Wide{std::numeric_limits<Key>::min()})
                ++least.below_all;
            else if (key <= Wide{std::numeric_limits<Key>::max()})
                least.keys.push_back(static_cast<Key>(key));
        }
    }
    return least;
}

template <class Number>
Splitters::Splitters(const std::vector<Number>& values) {
    check(values);
    signed_ = least_keys<std::int64_t>(values);
    unsigned_ = least_keys<std::uint64_t>(values);
    real_ = least_keys<double>(values);
}
template Splitters::Splitters(const std::vector<double>&);
template Splitters::Splitters(const std::vector<std::int64_t>&);
template Splitters::Splitters(const std::vector<std::uint64_t>&);

void Splitters::evaluate(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                         std::int64_t* targets) const {
    check_dims(keys, 1);
    with_real(keys.type, [&]<class T>() {
        if constexpr (std::is_floating_point_v<T>)
            count_values<double, T>(real_, keys, first, count, targets);
        else if constexpr (std::is_same_v<T, std::uint64_t>)
            count_values<std::uint64_t, T>(unsigned_, keys, first, count, targets);
        else
            count_values<std::int64_t, T>(signed_, keys, first, count, targets);
    });
}

}  // namespace datamover::distribute

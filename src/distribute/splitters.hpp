// SPDX-License-Identifier: BSD-3-Clause
// Binary search of keys among ascending splitters, of any number types.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/targets.hpp"

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

}  // namespace datamover::distribute

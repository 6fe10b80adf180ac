// SPDX-License-Identifier: BSD-3-Clause
// Random number generator of the NAS Parallel Benchmarks. Source: their specification.
#pragma once

#include <cstdint>

namespace apps {

/// The generator x <- a x mod 2^46 of the benchmarks; a number is x / 2^46.
class NasRandom {
public:
    static constexpr std::uint64_t seed = 314159265, factor = 1220703125;  // 5^13

    /// Begins after `skipped` numbers.
    explicit NasRandom(std::uint64_t skipped = 0) : x_(times(power(skipped), seed)) {}

    double next() {
        x_ = times(x_, factor);
        return static_cast<double>(x_) * 0x1p-46;
    }

private:
    /// What overflows 64 bits has no part in the lower 46.
    static std::uint64_t times(std::uint64_t a, std::uint64_t b) {
        return (a * b) & ((std::uint64_t{1} << 46) - 1);
    }
    static std::uint64_t power(std::uint64_t exponent) {
        std::uint64_t result = 1;
        for (std::uint64_t square = factor; exponent > 0; exponent /= 2) {
            if (exponent % 2 == 1) result = times(result, square);
            square = times(square, square);
        }
        return result;
    }

    std::uint64_t x_;
};

}  // namespace apps

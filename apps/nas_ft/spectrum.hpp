// SPDX-License-Identifier: BSD-3-Clause
// Computation between the transposes: transforms along one dimension, and the evolution of the
// spectrum. All versions share it.
#pragma once

#include <fftw3.h>

#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <tuple>

#include "problem.hpp"

namespace ft {

/// What one process holds: planes of z in space, as an array (mz, ny, nx), and planes of y in the
/// spectrum, as an array (my, nx, nz), so that lines along z are contiguous.
struct Share {
    Problem problem;
    std::int64_t z0 = 0, mz = 0;
    std::int64_t y0 = 0, my = 0;

    std::size_t space_elems() const {
        return static_cast<std::size_t>(mz * problem.ny * problem.nx);
    }
    std::size_t spectrum_elems() const {
        return static_cast<std::size_t>(my * problem.nx * problem.nz);
    }
};

enum class Direction : int { forward = FFTW_FORWARD, inverse = FFTW_BACKWARD };

/// Transforms in place, unscaled, of all lines along a dimension at x from x0 to x1 - 1. By FFTW,
/// on one thread.
class Transforms {
public:
    explicit Transforms(const Share& share) : share_(share) {}

    void along_x(Complex* space, Direction direction) {
        const Problem& p = share_.problem;
        transform(space, p.nx, 1, share_.mz * p.ny, p.nx, direction);
    }
    void along_y(Complex* space, Direction direction) {
        along_y(space, 0, share_.problem.nx, direction);
    }
    void along_y(Complex* space, std::int64_t x0, std::int64_t x1, Direction direction) {
        const Problem& p = share_.problem;
        for (std::int64_t z = 0; z < share_.mz; ++z)
            transform(space + z * p.ny * p.nx + x0, p.ny, p.nx, x1 - x0, 1, direction);
    }
    void along_z(Complex* spectrum, Direction direction) {
        along_z(spectrum, 0, share_.problem.nx, direction);
    }
    void along_z(Complex* spectrum, std::int64_t x0, std::int64_t x1, Direction direction) {
        const Problem& p = share_.problem;
        for (std::int64_t y = 0; y < share_.my; ++y)
            transform(spectrum + (y * p.nx + x0) * p.nz, p.nz, 1, x1 - x0, p.nz, direction);
    }

private:
    using Plan = std::unique_ptr<fftw_plan_s, decltype(&fftw_destroy_plan)>;

    /// `count` lines of n elements, `stride` apart; lines begin `distance` apart.
    void transform(Complex* lines, std::int64_t n, std::int64_t stride, std::int64_t count,
                   std::int64_t distance, Direction direction) {
        if (count == 0) return;
        auto* const data = reinterpret_cast<fftw_complex*>(lines);
        const auto key = std::tuple(n, stride, count, distance, direction);
        auto found = plans_.find(key);
        if (found == plans_.end()) {
            const int length = static_cast<int>(n);
            const auto number = [](std::int64_t value) { return static_cast<int>(value); };
            Plan plan(
                fftw_plan_many_dft(1, &length, number(count), data, nullptr, number(stride),
                                   number(distance), data, nullptr, number(stride),
                                   number(distance), static_cast<int>(direction), FFTW_ESTIMATE),
                fftw_destroy_plan);
            found = plans_.emplace(key, std::move(plan)).first;
        }
        fftw_execute_dft(found->second.get(), data, data);
    }

    Share share_;
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, Direction>, Plan>
        plans_;
};

/// The spectrum of the solution, which an iteration makes a step older.
class Evolution {
public:
    explicit Evolution(const Share& share)
        : factors_(share.spectrum_elems()), spectrum_(share.spectrum_elems()) {
        const Problem& p = share.problem;
        const auto square = [](std::int64_t i, std::int64_t n) {
            const std::int64_t frequency = i < n / 2 ? i : i - n;
            return frequency * frequency;
        };
        const double rate = -4e-6 * std::numbers::pi * std::numbers::pi;
        std::size_t at = 0;
        for (std::int64_t y = share.y0; y < share.y0 + share.my; ++y)
            for (std::int64_t x = 0; x < p.nx; ++x)
                for (std::int64_t z = 0; z < p.nz; ++z)
                    factors_[at++] =
                        std::exp(rate * static_cast<double>(square(x, p.nx) + square(y, p.ny) +
                                                            square(z, p.nz)));
    }

    void begin(const Complex* spectrum) {
        std::copy(spectrum, spectrum + spectrum_.size(), spectrum_.begin());
    }
    void step(Complex* spectrum) {
        for (std::size_t i = 0; i < spectrum_.size(); ++i)
            spectrum[i] = spectrum_[i] *= factors_[i];
    }

private:
    std::vector<double> factors_;
    std::vector<Complex> spectrum_;
};

}  // namespace ft

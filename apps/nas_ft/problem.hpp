// SPDX-License-Identifier: BSD-3-Clause
// Problems of NAS FT and their reference checksums. Source: NAS Parallel Benchmarks, FT, its
// specification and the reference values of NPB 3.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

namespace ft {

using Complex = std::complex<double>;

/// A class of the benchmark: extents, and the checksum after each iteration.
struct Problem {
    std::string name;
    std::int64_t nx = 0, ny = 0, nz = 0;
    std::vector<Complex> checksums;

    std::int64_t points() const { return nx * ny * nz; }
};

/// Throws BadInput where there is no such class.
Problem problem_of(const std::string& name);

/// A checksum counts as right with a relative error up to this.
inline constexpr double tolerance = 1e-12;

/// The values of the planes z0 to z0 + mz - 1 at the beginning, row-major with x last: the
/// benchmark's random numbers, real and imaginary part in turn.
void fill_planes(const Problem& problem, std::int64_t z0, std::int64_t mz, Complex* planes);

/// The sum of 1024 given points, of which this process holds those in its planes.
Complex checksum_of_planes(const Problem& problem, std::int64_t z0, std::int64_t mz,
                           const Complex* planes);

}  // namespace ft

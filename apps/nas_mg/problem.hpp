// SPDX-License-Identifier: BSD-3-Clause
// Problems of NAS MG and their reference residuals. Source: NAS Parallel Benchmarks, MG, its
// specification and the reference values of NPB 3.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stencils.hpp"

namespace mg {

/// A point where the right-hand side is not zero.
struct Charge {
    Index point;
    double value;
};

/// A class of the benchmark: Poisson's equation on a periodic grid of 2^levels points along each
/// edge. Level l of the hierarchy has 2^l points along each edge, l = 1 .. levels.
struct Problem {
    std::string name;
    int levels = 0;
    int iterations = 0;
    Smoother smoother{};
    double norm = 0;  ///< of the residual after the last iteration
    std::vector<Charge> charges;
    Index grid{1, 1, 1};  ///< processes per dimension; rank = row-major position

    std::int64_t edge(int level) const { return std::int64_t{1} << level; }
    std::int64_t points() const { return edge(levels) * edge(levels) * edge(levels); }
};

/// Everything but the grid of processes. Throws BadInput where there is no such class.
Problem problem_of(const std::string& name);

/// The norm counts as right with a relative error up to this.
inline constexpr double tolerance = 1e-8;

}  // namespace mg

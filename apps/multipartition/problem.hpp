// SPDX-License-Identifier: BSD-3-Clause
// Problems of BT and SP, and the cells of a process in the multipartition scheme.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "exchange/numbered.hpp"

namespace multipartition {

/// What differs between the two programs.
struct Scheme {
    const char* name;           ///< of the program
    const char* benchmark;      ///< for people
    bool values_together;       ///< the values of a point, or else each value's own array
    std::int64_t depth;         ///< layers of a cell that the next one needs in a sweep
    std::int64_t coefficients;  ///< that travel forward with the five values of a point
    std::int64_t points_of_w;   ///< along an edge of class W
};

/// A class: n³ points in edge³ cells, for edge² processes.
struct Problem {
    std::string name;
    std::int64_t n = 0, edge = 1, iterations = 0;
    Scheme scheme{};
};

/// The process that owns a cell: along each dimension its edge cells stand in different places, so
/// that all processes take part in each stage of a sweep. Source: `make_set` of NAS BT and SP.
inline std::int64_t owner_of(std::int64_t edge, const apps::Index& cell) {
    const std::int64_t i = (cell[0] + edge - cell[2]) % edge, j = (cell[1] + cell[2]) % edge;
    return i + edge * j;
}

/// The place of a process's cell with coordinate `stage` along dimension d.
inline apps::Index cell_of(std::int64_t edge, std::int64_t rank, std::size_t d,
                           std::int64_t stage) {
    const std::int64_t i = rank % edge, j = rank / edge;
    const std::int64_t z = d == 0   ? (stage + edge - i) % edge
                           : d == 1 ? (j + edge - stage) % edge
                                    : stage;
    return {(i + z) % edge, (j + edge - z) % edge, z};
}

}  // namespace multipartition

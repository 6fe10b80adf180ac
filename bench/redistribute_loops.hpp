// SPDX-License-Identifier: BSD-3-Clause
// Hand-written loops that copy a block-cyclic pattern between two shared arrays.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "redistribute_case.hpp"

namespace bench {

/// Where the local arrays of all processes lie, as this process sees them.
struct SharedArrays {
    std::vector<const double*> source;
    std::vector<double*> destination;
};

/// The ways to write it that fit the case, by name. Each copies this process's share once per call,
/// without any synchronisation: the caller has a barrier before and after.
std::vector<std::pair<std::string, std::function<void()>>> hand_loops(const Case& c, int rank,
                                                                      int size,
                                                                      const SharedArrays& arrays);

}  // namespace bench

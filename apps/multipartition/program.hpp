// SPDX-License-Identifier: BSD-3-Clause
// Entry point of the programs nas_bt and nas_sp.
#pragma once

#include <string>
#include <vector>

#include "problem.hpp"

namespace multipartition {

/// With arguments VERSIONS CLASS ITERATIONS ROUNDS [JSON_FILE]. Returns the exit code. Collective.
int run(const Scheme& scheme, const std::vector<std::string>& arguments);

}  // namespace multipartition

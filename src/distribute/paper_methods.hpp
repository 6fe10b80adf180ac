// SPDX-License-Identifier: BSD-3-Clause
// Which implementations does the paper name, and how are they called?
#pragma once

#include <string>

#include "distribution_state.hpp"

namespace datamover::distribute {

/// Moves one column to `result`. Collective.
using PaperMethod = void (*)(State&, const ElementColumn&, std::byte* result);

/// The implementation of that name, or nullptr.
PaperMethod paper_method(const std::string& name);
std::string paper_method_names();

void carry_by_alltoallv(State& state, const ElementColumn& column, std::byte* result);
void carry_by_alltoallw(State& state, const ElementColumn& column, std::byte* result);
void carry_by_sendrecv(State& state, const ElementColumn& column, std::byte* result);

}  // namespace datamover::distribute

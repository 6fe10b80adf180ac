// SPDX-License-Identifier: BSD-3-Clause
// Ways to carry single elements, selected by name: "partition", and those in src/alternatives.
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4.
#pragma once

#include <cstddef>
#include <string>

#include "distribute/migration_state.hpp"

namespace datamover::distribute {

/// A way to carry elements. All functions are collective.
struct Method {
    const char* name;
    /// Moves some columns; in stable order where that is asked for, else in one for all columns.
    void (*move)(State&, NodeSlot&, const ColumnTransfer&, bool stable);
    std::size_t columns_at_once;  ///< that it can move, at most
    /// Likewise within a dense buffer, or nullptr where it cannot.
    void (*move_in_place)(State&, NodeSlot&, const Buffer&, bool stable);
    /// Whether `move` keeps to a limit of extra memory.
    bool bounded;
    /// Whether a count of `elems` fits into the MPI calls of the method; nullptr if any count does.
    bool (*reaches)(std::int64_t elems);
};

/// The method of that name, or nullptr.
const Method* find_method(const std::string& name);
/// The names of all, "partition" first.
std::string method_names();

/// Moves columns. An error on one process is raised on all. Collective.
void move(const Method& how, State& state, NodeSlot& slot, const ColumnTransfer& transfer,
          bool stable);
/// Likewise in place.
void exchange(const Method& how, State& state, NodeSlot& slot, const Buffer& buffer, bool stable);

/// The extra memory in place: 1024 elements, or a few per process, fewer or more with a limit.
std::int64_t scratch_elems(const State& s, std::int64_t elem_bytes);

}  // namespace datamover::distribute

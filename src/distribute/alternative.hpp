// SPDX-License-Identifier: BSD-3-Clause
// Alternative ways to carry single elements, selected by name; implemented in src/alternatives.
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4.
#pragma once

#include <string>

#include "distribute/migration_state.hpp"

namespace datamover::alternatives {

using distribute::ColumnTransfer;
using distribute::ElementRange;
using distribute::NodeSlot;
using distribute::State;

/// Elements that are replaced where they lie.
struct Buffer {
    std::byte* data = nullptr;
    std::int64_t elem_bytes = 0;
    std::int64_t capacity_elems = 0;  ///< at least what is there before and after
    std::int64_t scratch_elems = 0;   ///< extra memory, the same number on all processes
};

/// An implementation of the paper. All functions are collective.
struct Alternative {
    const char* name;
    /// Moves columns; in stable order where that is asked for, else in one for all columns.
    void (*move)(State&, NodeSlot&, const ColumnTransfer&, bool stable);
    /// Likewise within a dense buffer, or nullptr where it cannot.
    void (*move_in_place)(State&, NodeSlot&, const Buffer&, bool stable);
    /// Whether `move` keeps to a limit of extra memory.
    bool bounded;
};

/// The implementation of that name, or nullptr.
const Alternative* find(const std::string& name);
std::string names();

/// Moves columns; whatever goes wrong is told to all processes. Collective.
void move(const Alternative& how, State& state, NodeSlot& slot, const ColumnTransfer& transfer,
          bool stable);
/// Likewise in place.
void exchange(const Alternative& how, State& state, NodeSlot& slot, const Buffer& buffer,
              bool stable);

/// The extra memory in place: 1024 elements, or a few per process, fewer or more with a limit.
std::int64_t scratch_elems(const State& s, std::int64_t elem_bytes);

}  // namespace datamover::alternatives

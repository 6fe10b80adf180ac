// SPDX-License-Identifier: BSD-3-Clause
// Which other ways to carry single elements are there, to be compared with ours?
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4.
#pragma once

#include <string>

#include "distribute/distribution_state.hpp"

namespace datamover::alternatives {

using distribute::Deal;
using distribute::NodeChannel;
using distribute::State;

/// An implementation of the paper. All functions are collective.
struct Alternative {
    const char* name;
    /// Moves one column to `result`; in stable order where that is asked for.
    void (*move)(State&, const ElementColumn&, std::byte* result, bool stable);
    /// Likewise within a dense buffer, or nullptr where it cannot.
    void (*move_in_place)(State&, std::byte* data, std::int64_t elem_bytes,
                          std::int64_t capacity_elems, bool stable);
    /// Whether `move` keeps to a limit of extra memory.
    bool bounded;
};

/// The implementation of that name, or nullptr.
const Alternative* find(const std::string& name);
std::string names();

void carry_by_alltoallv(State&, const ElementColumn&, std::byte* result, bool stable);
void carry_by_alltoallw(State&, const ElementColumn&, std::byte* result, bool stable);
void carry_by_sendrecv(State&, const ElementColumn&, std::byte* result, bool stable);
void carry_by_sort(State&, const ElementColumn&, std::byte* result, bool stable);

/// The extra memory is as many elements on all processes: 1024 (or a few per process), fewer or
/// more with a limit.
void exchange_by_alltoallv(State&, std::byte* data, std::int64_t elem_bytes,
                           std::int64_t capacity_elems, bool stable);
void exchange_by_sort(State&, std::byte* data, std::int64_t elem_bytes, std::int64_t capacity_elems,
                      bool stable);

}  // namespace datamover::alternatives

// SPDX-License-Identifier: BSD-3-Clause
// The four implementations of the paper on fine-grained migration.
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4.
#pragma once

#include "distribute/alternative.hpp"

namespace datamover::alternatives {

/// A rank or a number of elements as an index of a vector.
inline std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

void carry_by_alltoallv(State&, NodeSlot&, const ColumnTransfer&, bool stable);
void carry_by_alltoallw(State&, NodeSlot&, const ColumnTransfer&, bool stable);
void carry_by_sendrecv(State&, NodeSlot&, const ColumnTransfer&, bool stable);
void carry_by_sort(State&, NodeSlot&, const ColumnTransfer&, bool stable);
void exchange_by_alltoallv(State&, NodeSlot&, const Buffer&, bool stable);
void exchange_by_sort(State&, NodeSlot&, const Buffer&, bool stable);

}  // namespace datamover::alternatives

// SPDX-License-Identifier: BSD-3-Clause
// Lengths of the contiguous runs of memory in a part.
#pragma once

#include <cstdint>

#include "datamover/advanced/pair_part.hpp"
#include "datamover/memory_layout.hpp"

namespace datamover::plan {

/// The mean length in bytes of the contiguous runs of a part in its source's (else destination's)
/// memory, worked out from the tables; at least one element. Equal on all processes that know the
/// memory layout. O(size of the tables).
std::int64_t mean_run_bytes(const PairPart& part, const MemoryLayout& memory, Side side,
                            std::int64_t elem_bytes);

/// Whether both memories are fastest along the same axes: only then long runs of both come in the
/// same order. O(axes).
bool fastest_alike(const PairPart& part, const MemoryLayout& source,
                   const MemoryLayout& destination);

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Axis order of a part that keeps the runs of a memory whole.
#pragma once

#include "datamover/advanced/pair_part.hpp"
#include "datamover/memory_layout.hpp"
#include "datamover/side.hpp"

namespace datamover::plan {

/// The part with the axes of its boxes and products ordered as the memory of one side is, the
/// slowest outermost. Blocks that the memory does not hold stay as they are.
PairPart ordered_along(PairPart part, const MemoryLayout& memory, Side side);

}  // namespace datamover::plan

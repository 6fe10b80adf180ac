// SPDX-License-Identifier: BSD-3-Clause
// Fusion of nests that walk the same rows of memory.
#pragma once

#include <memory>

#include "encodings.hpp"

namespace datamover {

/// A list that moves the same elements in which two nests that take a few bytes of the same rows
/// each, on either side, are one, such as what fills the lower and the upper ghosts of a block's
/// rows, from one neighbour or from two: every line of those rows is then touched once. nullptr
/// where there are no such nests. O(n log n) for n nests.
std::shared_ptr<const ProductStorage> with_fused_nests(const ProductStorage& product);

}  // namespace datamover

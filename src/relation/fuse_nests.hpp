// SPDX-License-Identifier: BSD-3-Clause
// Which nests of a list walk the same rows of memory, so that one loop had better do both?
#pragma once

#include <memory>

#include "encodings.hpp"

namespace datamover {

/// A list that moves the same elements in which two nests that take a few bytes of the same rows
/// each, such as the lower and the upper side of a halo, are one: every line of memory is then
/// touched once. nullptr where there are no such nests. Looks at short lists only.
std::shared_ptr<const ProductStorage> with_fused_nests(const ProductStorage& product);

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Would results be written over what is still to be read, or over each other?
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "datamover/distribution.hpp"

namespace datamover::distribute {

/// The error where the first `result_elems` elements of a result share a byte with one of the first
/// `column_elems` elements of a column, or with another result. Columns have strides. O(columns ·
/// results). Local.
std::optional<Error> overlapping(std::span<const ElementColumn> columns, std::int64_t column_elems,
                                 std::span<const ElementBuffer> results, std::int64_t result_elems,
                                 int rank);

}  // namespace datamover::distribute

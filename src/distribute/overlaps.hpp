// SPDX-License-Identifier: BSD-3-Clause
// Checks of element buffers: valid addresses, and no result that overwrites elements still to be
// read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "datamover/element_columns.hpp"
#include "datamover/error.hpp"

namespace datamover::distribute {

/// The error where the first `result_elems` elements of a result share a byte with one of the first
/// `column_elems` elements of a column, or with another result. Columns have strides. O(columns ·
/// results). Local.
std::optional<Error> overlapping(std::span<const ElementColumn> columns, std::int64_t column_elems,
                                 std::span<const ElementBuffer> results, std::int64_t result_elems,
                                 int rank);

/// Throws out_of_range where `elems` elements, `stride_bytes` from one to the next, reach beyond
/// all addresses that there are. Local.
void check_addresses(const void* data, std::int64_t elems, std::int64_t stride_bytes,
                     std::int64_t elem_bytes);

}  // namespace datamover::distribute

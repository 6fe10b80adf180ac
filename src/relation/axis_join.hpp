// SPDX-License-Identifier: BSD-3-Clause
// Join of two axis tables over their common message positions.
#pragma once

#include "datamover/advanced/axis_table.hpp"

namespace datamover {

/// The k-th source of `a` meets the k-th destination of `b`; a null pointer stands for 0, 1, 2, …
/// up to `size`.
AxisTable join_tables(const AxisTable* a, const AxisTable* b, std::int64_t size);

}  // namespace datamover

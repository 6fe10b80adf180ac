// SPDX-License-Identifier: BSD-3-Clause
// Partitioning small elements over few targets with AVX-512.
#pragma once

#include <cstddef>

#include "partition.hpp"

namespace datamover::distribute {

/// Deals dense elements of 4 or 8 bytes to few processes by one compressing store per target and
/// vector; false where elements, processes or processor do not suit, and nothing is done.
bool fan_out_compressed(const ElementRange& range, const ElementColumn& column, std::byte** places);

}  // namespace datamover::distribute

// SPDX-License-Identifier: BSD-3-Clause
// The indices that one block holds along one dimension, and their local positions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "datamover/axis_table.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// The indices first + k·period + j (k >= 0, 0 <= j < length) below `end`. The local position of an
/// index is k·length + j. A plain interval is one block with period = length.
struct AxisSet {
    std::int64_t first = 0;
    std::int64_t length = 1;  ///< indices per block, >= 1
    std::int64_t period = 1;  ///< >= length
    std::int64_t end = 0;

    static AxisSet interval(std::int64_t lo, std::int64_t hi) {
        const std::int64_t n = std::max<std::int64_t>(hi - lo, 1);
        return {lo, n, n, hi};
    }
    /// Number of indices. O(1).
    std::int64_t size() const {
        if (end <= first) return 0;
        const std::int64_t span = end - first;
        return span / period * length + std::min(span % period, length);
    }
    /// Local position of a global index, or -1 when it is not in the set. O(1).
    std::int64_t local(std::int64_t global) const {
        if (global < first || global >= end) return -1;
        const std::int64_t offset = (global - first) % period;
        return offset < length ? (global - first) / period * length + offset : -1;
    }
    /// Global index at a local position. O(1).
    std::int64_t global(std::int64_t local) const {
        return first + local / length * period + local % length;
    }
    /// The smallest half-open range that holds all indices.
    std::int64_t lower() const { return first; }
    std::int64_t upper() const {
        const std::int64_t n = size();
        return n == 0 ? first : global(n - 1) + 1;
    }
};

/// The least common multiple of two periods, or the largest integer when it does not fit.
std::int64_t common_period(std::int64_t a, std::int64_t b);

/// Throws unsupported where a table would take too long to make because so many blocks lie in what
/// two sets have to be compared over. No size in a plan's bytes then makes work without bound.
void check_blocks_to_walk(std::int64_t blocks);

/// For t in [0, extent): where source_lo + t is in `source` and destination_lo + t is in
/// `destination`, their local positions meet; ordered by t. The cost follows the number of blocks
/// in one common period of the two sets, never `extent`. Throws unsupported where those are more
/// than 2^24.
AxisTable intersect(const AxisSet& source, std::int64_t source_lo, const AxisSet& destination,
                    std::int64_t destination_lo, std::int64_t extent);

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// The indices that one block holds along one dimension, and their local positions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "datamover/advanced/axis_table.hpp"
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
    /// Return the number of indices. O(1).
    std::int64_t size() const {
        if (end <= first) return 0;
        const std::int64_t span = end - first;
        return span / period * length + std::min(span % period, length);
    }
    /// Return the local position of a global index, or -1 if it is not in the set. O(1).
    std::int64_t local(std::int64_t global) const {
        if (global < first || global >= end) return -1;
        const std::int64_t offset = (global - first) % period;
        return offset < length ? (global - first) / period * length + offset : -1;
    }
    /// Return the global index at a local position. O(1).
    std::int64_t global(std::int64_t local) const {
        return first + local / length * period + local % length;
    }
    /// Return the first index of the set that is not below `index`, or `none`. O(1).
    std::int64_t next(std::int64_t index) const {
        index = std::max(index, first);
        if (index >= end) return none;
        const std::int64_t offset = (index - first) % period;
        if (offset < length) return index;
        return period - offset < end - index ? index + (period - offset) : none;
    }
    static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    /// Return the ends of the smallest half-open range that contains all indices.
    std::int64_t lower() const { return first; }
    std::int64_t upper() const {
        const std::int64_t n = size();
        return n == 0 ? first : global(n - 1) + 1;
    }
    /// Return all indices, ascending. O(their number).
    std::vector<std::int64_t> indices() const;
    /// Return the indices -1 - i of all indices i of the set: the set seen from the other end. If
    /// `end` cuts off the last block, the result begins with the whole of that block. The local
    /// positions of an index in both sets have the same sum, the last position of the result. O(1).
    AxisSet mirrored() const;
};

/// Return the least common multiple of two periods, or the largest integer if it does not fit.
std::int64_t common_period(std::int64_t a, std::int64_t b);

/// Limit the number of blocks in the range over which two sets must be compared, so that no size in
/// a plan's bytes causes unbounded work. Throws unsupported if a table of all blocks would take too
/// long to make.
void check_blocks_to_walk(std::int64_t blocks);

/// Intersect two sets: for each t in [0, extent) such that source_lo + t is in `source` and
/// destination_lo + t is in `destination`, the table pairs their local positions; ordered by t.
/// Throws unsupported for more than 2^24 blocks in one common period of the two sets. Cost:
/// proportional to that number, independent of `extent`.
AxisTable intersect(const AxisSet& source, std::int64_t source_lo, const AxisSet& destination,
                    std::int64_t destination_lo, std::int64_t extent);

}  // namespace datamover

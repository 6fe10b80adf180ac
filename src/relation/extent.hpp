// SPDX-License-Identifier: BSD-3-Clause
// Extents of tables and nests, with overflow checks, and the order of their positions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "encodings.hpp"
#include "geometry/checked.hpp"

namespace datamover {

constexpr std::int64_t most_elems = std::int64_t{1} << 59;

/// The lowest and the highest of some positions or addresses, both included.
struct Extent {
    std::int64_t low = std::numeric_limits<std::int64_t>::max();
    std::int64_t high = std::numeric_limits<std::int64_t>::min();

    void stretch(std::int64_t by) {
        low += std::min<std::int64_t>(by, 0);
        high += std::max<std::int64_t>(by, 0);
    }
    void include(const Extent& other) {
        low = std::min(low, other.low);
        high = std::max(high, other.high);
    }
};

/// Whether positions, gone through in order, ascend, and whether they do so without gaps.
struct AscentCheck {
    bool ascends = true;
    bool dense = true;

    /// `count` pieces of `length` positions each, `step` apart, come next.
    void add(std::int64_t start, std::int64_t count, std::int64_t step, std::int64_t length) {
        ascends = ascends && start >= next && (count == 1 || step >= length);
        dense = dense && (first || start == next) && (count == 1 || step == length);
        first = false;
        next = start + (count - 1) * step + length;
    }

    bool first = true;
    std::int64_t next = std::numeric_limits<std::int64_t>::min();  ///< where the last piece ended
};

/// Of a table's positions on a side. O(runs), whatever the number of periods.
AscentCheck ascent_of(const AxisTable& table, Side side);

/// Of a table that holds at least one pair. O(runs).
Extent extent_of(const AxisTable& table, Side side);
/// Of a nest's element starts.
Extent extent_of(const Nest& nest, Side side);

/// The greatest magnitude of a table's positions on each side; the largest integer where it exceeds
/// largest_address. O(runs).
AddressPair reach_of(const AxisTable& table);

/// `start + i * step` for i < elems stay within largest_address.
bool row_fits(std::int64_t start, std::int64_t elems, std::int64_t step);
/// What makes the addresses or the number of elements of a nest too large to compute with, or
/// nullptr; `reach` holds the greatest magnitude of the positions along each axis.
const char* excess_of(const Nest& nest, std::span<const AddressPair> reach);

/// Throws out_of_range when a message of so many elements exceeds largest_address bytes.
std::int64_t checked_message_bytes(std::int64_t elems, std::int64_t elem_bytes);

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// The two sides of a move: source and destination.
#pragma once

#include <array>
#include <cstddef>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

enum class Side : std::size_t { source = 0, destination = 1 };

inline constexpr std::array<Side, 2> both_sides{Side::source, Side::destination};

constexpr Side other(Side side) {
    return side == Side::source ? Side::destination : Side::source;
}

/// Return "source" or "destination", for messages.
constexpr const char* side_name(Side side) {
    return side == Side::source ? "source" : "destination";
}

/// A pair of values, one for each side.
template <class T>
struct PerSide {
    T source{}, destination{};

    T& operator[](Side side) { return side == Side::source ? source : destination; }
    const T& operator[](Side side) const { return side == Side::source ? source : destination; }
};

}  // namespace datamover

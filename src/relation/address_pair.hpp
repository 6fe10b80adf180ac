// SPDX-License-Identifier: BSD-3-Clause
// Pairs of a source and a destination address, and loops over them.
#pragma once

#include <cstdint>

#include "datamover/side.hpp"

namespace datamover {

/// A source and a destination address in bytes, the distance between two such pairs, or a stride of
/// each side.
using AddressPair = PerSide<std::int64_t>;

constexpr bool operator==(AddressPair a, AddressPair b) {
    return a.source == b.source && a.destination == b.destination;
}
constexpr AddressPair operator+(AddressPair a, AddressPair b) {
    return {a.source + b.source, a.destination + b.destination};
}
constexpr AddressPair operator-(AddressPair a, AddressPair b) {
    return {a.source - b.source, a.destination - b.destination};
}
constexpr AddressPair operator*(std::int64_t n, AddressPair a) {
    return {n * a.source, n * a.destination};
}
/// Multiplies the positions on each side by the bytes between them.
constexpr AddressPair operator*(AddressPair a, AddressPair b) {
    return {a.source * b.source, a.destination * b.destination};
}
constexpr AddressPair& operator+=(AddressPair& a, AddressPair b) {
    return a = a + b;
}

/// `count` positions, `stride` bytes apart on either side.
struct LoopAxis {
    std::int64_t count = 1;
    AddressPair stride;

    bool operator==(const LoopAxis&) const = default;
};

/// `count` contiguous elements, positions or bytes that start at a pair of addresses.
struct Block {
    AddressPair start;
    std::int64_t count = 0;
};

}  // namespace datamover

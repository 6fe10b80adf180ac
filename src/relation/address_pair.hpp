// SPDX-License-Identifier: BSD-3-Clause
// Pairs of a source and a destination address, and loops over them.
#pragma once

#include <cstdint>

#include "datamover/side.hpp"

namespace datamover {

/// A source and a destination address in bytes, the distance of two such, or the stride of both.
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
/// Of positions and the bytes between them, on each side.
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

/// `count` elements, positions or bytes side by side, from a pair of addresses on.
struct Block {
    AddressPair start;
    std::int64_t count = 0;
};

}  // namespace datamover

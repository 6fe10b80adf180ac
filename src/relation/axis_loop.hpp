// SPDX-License-Identifier: BSD-3-Clause
// Outer loops of a kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "encodings.hpp"

namespace datamover {

/// One axis as the list of its blocks of positions in the order of the destination, repeated over
/// periods.
struct AxisLoop {
    AddressPair stride;
    std::vector<Block> blocks{Block{{}, 1}};
    LoopAxis periods{};
    std::vector<Block> tail{};

    AxisLoop() = default;  ///< one position
    explicit AxisLoop(const NestAxis& axis);
    /// Takes a plain axis outside this one in, as periods; what were periods become blocks.
    void absorb(const LoopAxis& outer);
    std::int64_t longest_block() const;

    /// Calls visit(source offset, destination offset, positions) for every block.
    template <class Visit>
    void for_each_block(const char* source, char* destination, Visit&& visit) const {
        for (std::int64_t p = 0; p < periods.count; ++p) {
            const char* s = source + p * periods.stride.source;
            char* d = destination + p * periods.stride.destination;
            for (const Block& b : blocks)
                visit(s + b.start.source, d + b.start.destination, b.count);
        }
        for (const Block& b : tail)
            visit(source + b.start.source, destination + b.start.destination, b.count);
    }

    /// Calls visit(source, destination) for every position.
    template <class Visit>
    void for_each_position(const char* source, char* destination, Visit&& visit) const {
        for_each_block(source, destination, [&](const char* s, char* d, std::int64_t n) {
            for (std::int64_t i = 0; i < n; ++i)
                visit(s + i * stride.source, d + i * stride.destination);
        });
    }
};

/// Replaces the axes whose tables have too many blocks to be listed by plain ones: a list of nests
/// that hold the same pairs in another order.
std::vector<Nest> without_long_tables(const Nest& nest);

/// Runs leaf(source, destination) at every position of the axes.
template <class Leaf>
void walk_axes(const std::vector<AxisLoop>& axes, std::size_t depth, const char* source,
               char* destination, const Leaf& leaf) {
    if (depth == axes.size()) {
        leaf(source, destination);
        return;
    }
    if (depth + 1 == axes.size()) {
        axes[depth].for_each_position(source, destination, leaf);
        return;
    }
    axes[depth].for_each_position(source, destination, [&](const char* s, char* d) {
        walk_axes(axes, depth + 1, s, d, leaf);
    });
}

}  // namespace datamover

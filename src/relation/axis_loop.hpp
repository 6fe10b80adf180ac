// SPDX-License-Identifier: BSD-3-Clause
// Outer loops of a kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "encodings.hpp"

namespace datamover {

/// A block of positions along an axis: byte offsets of its first position, and their number.
struct AxisBlock {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::int64_t count = 0;
};

/// One axis as the list of its blocks in the order of the destination, repeated over periods.
struct AxisLoop {
    std::vector<AxisBlock> blocks;
    std::int64_t periods = 1;
    std::int64_t source_period = 0;
    std::int64_t destination_period = 0;
    std::vector<AxisBlock> tail;
    std::int64_t source_stride = 0;
    std::int64_t destination_stride = 0;

    explicit AxisLoop(const NestAxis& axis);
    /// Takes a plain axis outside this one in, as periods; what were periods become blocks.
    void absorb(const NestAxis& outer);
    bool plain() const { return periods == 1 && blocks.size() == 1 && tail.empty(); }
    std::int64_t longest_block() const;

    /// Calls visit(source offset, destination offset, positions) for every block.
    template <class Visit>
    void for_each_block(const char* source, char* destination, Visit&& visit) const {
        for (std::int64_t p = 0; p < periods; ++p) {
            const char* s = source + p * source_period;
            char* d = destination + p * destination_period;
            for (const AxisBlock& b : blocks) visit(s + b.source, d + b.destination, b.count);
        }
        for (const AxisBlock& b : tail)
            visit(source + b.source, destination + b.destination, b.count);
    }

    /// Calls visit(source, destination) for every position.
    template <class Visit>
    void for_each_position(const char* source, char* destination, Visit&& visit) const {
        for_each_block(source, destination, [&](const char* s, char* d, std::int64_t n) {
            for (std::int64_t i = 0; i < n; ++i)
                visit(s + i * source_stride, d + i * destination_stride);
        });
    }
};

/// Blocks that a table has in one period and in its tail: what an AxisLoop would list.
std::int64_t listed_blocks(const AxisTable& table);

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

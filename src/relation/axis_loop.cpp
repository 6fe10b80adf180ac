// SPDX-License-Identifier: BSD-3-Clause
// Outer loops of a kernel.
#include "axis_loop.hpp"

#include <algorithm>

namespace datamover {
namespace {

constexpr std::int64_t most_listed_blocks = 4096;

std::int64_t blocks_of(const std::vector<AxisRun>& runs) {
    std::int64_t n = 0;
    for (const AxisRun& r : runs) n += r.count;
    return n;
}

/// The blocks of runs in bytes, in the order of the destination, neighbours joined.
std::vector<AxisBlock> list_blocks(const std::vector<AxisRun>& runs, std::int64_t source_stride,
                                   std::int64_t destination_stride) {
    std::vector<AxisBlock> blocks;
    for (const AxisRun& r : runs)
        for (std::int64_t k = 0; k < r.count; ++k)
            blocks.push_back({(r.source + k * r.source_step) * source_stride,
                              (r.destination + k * r.destination_step) * destination_stride,
                              r.length});
    std::ranges::stable_sort(blocks, [](const AxisBlock& a, const AxisBlock& b) {
        return a.destination < b.destination;
    });
    std::size_t kept = 0;
    for (const AxisBlock& b : blocks) {
        if (kept > 0) {
            AxisBlock& last = blocks[kept - 1];
            if (last.source + last.count * source_stride == b.source &&
                last.destination + last.count * destination_stride == b.destination) {
                last.count += b.count;
                continue;
            }
        }
        blocks[kept++] = b;
    }
    blocks.resize(kept);
    return blocks;
}

void append_plain_runs(const Nest& nest, std::size_t k, const std::vector<AxisRun>& runs,
                       std::int64_t periods, std::vector<Nest>& result) {
    const NestAxis& axis = nest.axes[k];
    const AxisTable& table = *axis.table;
    for (const AxisRun& r : runs) {
        Nest part = nest;
        part.source += r.source * axis.source_stride;
        part.destination += r.destination * axis.destination_stride;
        part.axes[k] = {r.length, axis.source_stride, axis.destination_stride, nullptr};
        part.axes.push_back({r.count, r.source_step * axis.source_stride,
                             r.destination_step * axis.destination_stride, nullptr});
        part.axes.push_back({periods, table.source_period() * axis.source_stride,
                             table.destination_period() * axis.destination_stride, nullptr});
        fold_axes(part.axes);
        for (Nest& shorter : without_long_tables(part)) result.push_back(std::move(shorter));
    }
}

}  // namespace

std::int64_t listed_blocks(const AxisTable& table) {
    return blocks_of(table.runs()) + blocks_of(table.tail());
}

AxisLoop::AxisLoop(const NestAxis& axis)
    : source_stride(axis.source_stride), destination_stride(axis.destination_stride) {
    if (axis.table == nullptr) {
        blocks.push_back({0, 0, axis.count});
        return;
    }
    const AxisTable& t = *axis.table;
    blocks = list_blocks(t.runs(), source_stride, destination_stride);
    periods = t.periods();
    source_period = t.source_period() * source_stride;
    destination_period = t.destination_period() * destination_stride;
    tail = list_blocks(t.tail(), source_stride, destination_stride);
}

void AxisLoop::absorb(const NestAxis& outer) {
    const std::vector<AxisBlock> one = blocks;
    for (std::int64_t p = 1; p < periods; ++p)
        for (const AxisBlock& b : one)
            blocks.push_back(
                {b.source + p * source_period, b.destination + p * destination_period, b.count});
    periods = outer.count;
    source_period = outer.source_stride;
    destination_period = outer.destination_stride;
}

std::int64_t AxisLoop::longest_block() const {
    std::int64_t longest = 0;
    for (const AxisBlock& b : blocks) longest = std::max(longest, b.count);
    for (const AxisBlock& b : tail) longest = std::max(longest, b.count);
    return longest;
}

std::vector<Nest> without_long_tables(const Nest& nest) {
    for (std::size_t k = 0; k < nest.axes.size(); ++k) {
        const AxisTable* table = nest.axes[k].table;
        if (table == nullptr || listed_blocks(*table) <= most_listed_blocks) continue;
        std::vector<Nest> result;
        if (table->periods() > 0)
            append_plain_runs(nest, k, table->runs(), table->periods(), result);
        append_plain_runs(nest, k, table->tail(), 1, result);
        return result;
    }
    return {nest};
}

}  // namespace datamover

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
std::vector<Block> list_blocks(const std::vector<AxisRun>& runs, AddressPair stride) {
    std::vector<Block> all, joined;
    for (const AxisRun& r : runs)
        for (std::int64_t k = 0; k < r.count; ++k)
            all.push_back({(start_of(r) + k * step_of(r)) * stride, r.length});
    std::ranges::stable_sort(all, {}, [](const Block& b) { return b.start.destination; });
    for (const Block& b : all)
        if (!joined.empty() && joined.back().start + joined.back().count * stride == b.start)
            joined.back().count += b.count;
        else
            joined.push_back(b);
    return joined;
}

void append_plain_runs(const Nest& nest, std::size_t k, const std::vector<AxisRun>& runs,
                       std::int64_t periods, std::vector<Nest>& result) {
    const AddressPair stride = nest.axes[k].stride;
    for (const AxisRun& r : runs) {
        Nest part = nest;
        part.start += start_of(r) * stride;
        part.axes[k] = {{r.length, stride}};
        part.axes.push_back({{r.count, step_of(r) * stride}});
        part.axes.push_back({{periods, period_of(*nest.axes[k].table) * stride}});
        fold_axes(part.axes);
        for (Nest& shorter : without_long_tables(part)) result.push_back(std::move(shorter));
    }
}

}  // namespace

AxisLoop::AxisLoop(const NestAxis& axis) : stride(axis.stride) {
    if (axis.table == nullptr) {
        blocks.front().count = axis.count;
        return;
    }
    const AxisTable& t = *axis.table;
    blocks = list_blocks(t.runs(), stride);
    periods = {t.periods(), period_of(t) * stride};
    tail = list_blocks(t.tail(), stride);
}

void AxisLoop::absorb(const LoopAxis& outer) {
    const std::vector<Block> one = blocks;
    for (std::int64_t p = 1; p < periods.count; ++p)
        for (const Block& b : one) blocks.push_back({b.start + p * periods.stride, b.count});
    periods = outer;
}

std::int64_t AxisLoop::longest_block() const {
    std::int64_t longest = 0;
    for (const Block& b : blocks) longest = std::max(longest, b.count);
    for (const Block& b : tail) longest = std::max(longest, b.count);
    return longest;
}

std::vector<Nest> without_long_tables(const Nest& nest) {
    for (std::size_t k = 0; k < nest.axes.size(); ++k) {
        const AxisTable* table = nest.axes[k].table;
        if (table == nullptr ||
            blocks_of(table->runs()) + blocks_of(table->tail()) <= most_listed_blocks)
            continue;
        std::vector<Nest> result;
        if (table->periods() > 0)
            append_plain_runs(nest, k, table->runs(), table->periods(), result);
        append_plain_runs(nest, k, table->tail(), 1, result);
        return result;
    }
    return {nest};
}

}  // namespace datamover

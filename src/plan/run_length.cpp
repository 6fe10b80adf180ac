// SPDX-License-Identifier: BSD-3-Clause
// Lengths of the contiguous runs of memory in a part.
#include "run_length.hpp"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "geometry/checked.hpp"
#include "runs.hpp"

namespace datamover::plan {
namespace {

/// Positions along one dimension: how many, in how many unbroken runs, and how far apart.
struct Line {
    std::int64_t stride_bytes = 0;
    std::int64_t positions = 1;
    std::int64_t runs = 1;
};

std::int64_t runs_in(const std::vector<AxisRun>& runs, Side side) {
    std::int64_t count = 0, next = 0;
    for (const AxisRun& r : runs) {
        const std::int64_t first = r.start(side);
        const std::int64_t step = r.step(side);
        const bool continues = &r != runs.data() && first == next;
        count += (r.count > 1 && step != r.length ? r.count : 1) - (continues ? 1 : 0);
        next = first + (r.count - 1) * step + r.length;
    }
    return count;
}

/// Positions of a table that all lie equally far apart: how far, else 1.
std::int64_t even_step(const AxisTable& table, Side side) {
    if (!table.single_run() || table.runs().front().length > 1) return 1;
    const AxisRun& run = table.runs().front();
    return run.count > 1 ? run.step(side) : 1;
}

Line line_of(const AxisTable& table, std::int64_t stride_bytes, Side side) {
    if (const std::int64_t step = even_step(table, side); step != 1)
        return {std::abs(stride_bytes * step), table.size(), 1};
    return {std::abs(stride_bytes), table.size(),
            table.periods() * runs_in(table.runs(), side) + runs_in(table.tail(), side)};
}

/// Lines are unbroken together as long as each begins where the one inside it ends.
std::int64_t run_bytes(std::vector<Line> lines, std::int64_t elem_bytes) {
    std::ranges::sort(lines,
                      [](const Line& a, const Line& b) { return a.stride_bytes < b.stride_bytes; });
    std::int64_t run = elem_bytes;
    for (const Line& line : lines) {
        if (line.positions == 1) continue;
        if (line.stride_bytes != run) break;
        run = run * line.positions / line.runs;
        if (line.runs > 1) break;
    }
    return run;
}

std::vector<Line> lines_of(std::span<const PartAxis> axes, const BlockMemory& memory, Side side) {
    std::vector<Line> lines;
    for (const PartAxis& axis : axes) {
        const std::int64_t stride = memory.strides_bytes[axis.dim[side]] * axis.step[side];
        lines.push_back(axis.table ? line_of(*axis.table, stride, side)
                                   : Line{std::abs(stride), axis.length, 1});
    }
    return lines;
}

/// The axis along which a block's memory is fastest, of those with more than one position; its
/// number, or -1.
int fastest_axis(std::span<const PartAxis> axes, const BlockMemory& block, Side side) {
    int best = -1, k = 0;
    std::int64_t least = 0;
    for (const PartAxis& axis : axes) {
        const std::int64_t step = axis.table ? even_step(*axis.table, side) : 1;
        const std::int64_t stride =
            std::abs(step * axis.step[side] * block.strides_bytes[axis.dim[side]]);
        if (axis.length != 1 && (best < 0 || stride < least)) {
            best = k;
            least = stride;
        }
        ++k;
    }
    return best;
}

}  // namespace

std::int64_t mean_run_bytes(const PairPart& part, const MemoryLayout& memory, Side side,
                            std::int64_t elem_bytes) {
    // Equal shapes in equal blocks have equally many runs.
    struct Known {
        Point strides_bytes;
        std::int64_t runs = 0;
    };
    std::vector<Known> known(static_cast<std::size_t>(part.num_shapes()));
    std::int64_t all_elems = 0, all_runs = 0;
    for (const PartEntry& entry : part.entries()) {
        const BlockMemory* block = memory.find(entry.block(side));
        if (!block) continue;
        const std::int64_t elems = part.elems(entry);
        all_elems = geometry::add(all_elems, elems);
        if (!entry.is_nest()) {
            const PartRuns& runs = part.runs(entry);
            const int d = runs.generator->dim(side_of(runs, side));
            const bool unbroken = std::abs(block->strides_bytes[d]) == elem_bytes;
            all_runs += unbroken ? runs.count : elems;
            continue;
        }
        Known& k = known[static_cast<std::size_t>(entry.content)];
        if (k.runs == 0 || !(k.strides_bytes == block->strides_bytes))
            k = {block->strides_bytes,
                 std::max<std::int64_t>(
                     1, geometry::multiply(elems, elem_bytes) /
                            run_bytes(lines_of(part.axes(entry), *block, side), elem_bytes))};
        all_runs += k.runs;
    }
    if (all_runs == 0) return elem_bytes;
    return std::max(elem_bytes, geometry::multiply(all_elems, elem_bytes) / all_runs);
}

bool fastest_alike(const PairPart& part, const MemoryLayout& source,
                   const MemoryLayout& destination) {
    return std::ranges::all_of(part.entries(), [&](const PartEntry& entry) {
        if (!entry.is_nest()) return true;
        const BlockMemory* from = source.find(entry.source_block);
        const BlockMemory* to = destination.find(entry.destination_block);
        const auto axes = part.axes(entry);
        return from && to &&
               fastest_axis(axes, *from, Side::source) ==
                   fastest_axis(axes, *to, Side::destination);
    });
}

}  // namespace datamover::plan

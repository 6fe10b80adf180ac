// SPDX-License-Identifier: BSD-3-Clause
// Queries of the part of a plan between two processes.
#include "datamover/pair_part.hpp"

#include <algorithm>

#include "runs.hpp"

namespace datamover {
namespace {

/// Visits the elements of the axes from number `k` on, at `index` plus their positions.
void walk_axes(std::span<const PartAxis> axes, PerSide<Point>& index,
               const std::function<void()>& visit) {
    if (axes.empty()) return visit();
    const PartAxis& axis = axes.front();
    const auto block = [&](std::int64_t source, std::int64_t destination, std::int64_t length) {
        for (std::int64_t i = 0; i < length; ++i) {
            const PerSide<std::int64_t> at{
                axis.start.source + (source + i) * axis.step.source,
                axis.start.destination + (destination + i) * axis.step.destination};
            for (const Side side : both_sides) index[side][axis.dim[side]] += at[side];
            walk_axes(axes.subspan(1), index, visit);
            for (const Side side : both_sides) index[side][axis.dim[side]] -= at[side];
        }
    };
    if (axis.table)
        axis.table->for_each_block(block);
    else
        block(0, 0, axis.length);
}

int dims_of(std::span<const PartAxis> axes, Side side) {
    int dims = 0;
    for (const PartAxis& axis : axes) dims = std::max(dims, axis.dim[side] + 1);
    return dims;
}

}  // namespace

PairPart PairPart::only(std::size_t entry) const {
    PairPart part;
    PartEntry alone = entries_[entry];
    part.elems_ = elems(alone);
    if (alone.is_nest()) {
        const auto own = axes(alone);
        part.axes_.assign(own.begin(), own.end());
        part.first_shape_ = {0, own.size(), part.elems_};
        alone.content = 0;
    } else {
        part.runs_.push_back(runs(alone));
        alone.content = -1;
    }
    part.entries_.push_back(alone);
    return part;
}

void PairPart::for_each_element(const VisitElement& visit) const {
    for (const PartEntry& entry : entries_) {
        PerSide<Point> index;
        if (entry.is_nest()) {
            for (const Side side : both_sides)
                index[side] = Point::filled(dims_of(axes(entry), side), 0);
            walk_axes(axes(entry), index, [&] { visit(entry, index); });
            continue;
        }
        const PartRuns& content = runs(entry);
        const auto& generator = *content.generator;
        plan::for_each_run(content, [&](const plan::Run& run) {
            for (std::int64_t i = 0; i < run.length; ++i) {
                for (const Side side : both_sides) {
                    const Side of = plan::side_of(content, side);
                    index[side] = Point(
                        std::span(run.at[side], static_cast<std::size_t>(generator.dims(of))));
                    index[side][generator.dim(of)] += i * run.step[side];
                }
                visit(entry, index);
            }
        });
    }
}

}  // namespace datamover

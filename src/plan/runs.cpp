// SPDX-License-Identifier: BSD-3-Clause
// Generators of runs, and pieces made of runs or axes.
#include "runs.hpp"

#include <algorithm>

#include "geometry/checked.hpp"

namespace datamover::plan {
namespace {

using LocalIndex = std::array<std::int64_t, max_dims>;

/// The local index with a row-major number within a box at 0.
void find_index(std::int64_t number, const Point& extents, LocalIndex& index) {
    for (int d = extents.dims() - 1; d > 0; --d) {
        index[static_cast<std::size_t>(d)] = number % extents[d];
        number /= extents[d];
    }
    index[0] = number;
}

/// A walk over a box, row by row.
class BoxRows {
public:
    BoxRows(const Region& box, std::int64_t first)
        : box_(box), last_(static_cast<std::size_t>(box.dims() - 1)) {
        find_index(first, box.shape(), index_);
        for (int d = 0; d < box.dims(); ++d) index_[static_cast<std::size_t>(d)] += box.lo()[d];
    }
    const std::int64_t* index() const { return index_.data(); }
    std::int64_t left_in_row() const { return box_.hi()[static_cast<int>(last_)] - index_[last_]; }
    void advance(std::int64_t elems) {
        index_[last_] += elems;
        for (int d = static_cast<int>(last_); d > 0; --d) {
            std::int64_t& at = index_[static_cast<std::size_t>(d)];
            if (at < box_.hi()[d]) return;
            at = box_.lo()[d];
            ++index_[static_cast<std::size_t>(d - 1)];
        }
    }

private:
    const Region& box_;
    std::size_t last_;
    LocalIndex index_{};
};

bool is_identity(const PartAxis& axis) {
    if (axis.dim != axis.dim.exchanged() || axis.start != axis.start.exchanged() ||
        axis.step != axis.step.exchanged())
        return false;
    if (!axis.table) return true;
    const AxisTable& table = *axis.table;
    const auto stays = [](const AxisRun& r) {
        return r.source == r.destination && (r.count == 1 || r.source_step == r.destination_step);
    };
    return (table.periods() <= 1 || table.source_period() == table.destination_period()) &&
           std::ranges::all_of(table.runs(), stays) && std::ranges::all_of(table.tail(), stays);
}

}  // namespace

void ListedRuns::for_each(std::int64_t first, std::int64_t end, const Visit& visit) const {
    PerSide<LocalIndex> index;
    Run run{first, 1, 1, {index.source.data(), index.destination.data()}, {1, 1}};
    for (; run.position < end; ++run.position) {
        for (const Side side : both_sides)
            find_index(flat_[side][static_cast<std::size_t>(run.position)], extents_[side],
                       index[side]);
        visit(run);
    }
}

void ReshapedRuns::for_each(std::int64_t first, std::int64_t end, const Visit& visit) const {
    if (first >= end) return;
    BoxRows source(box_.source, first), destination(box_.destination, first);
    for (std::int64_t position = first; position < end;) {
        const std::int64_t length =
            std::min({source.left_in_row(), destination.left_in_row(), end - position});
        visit({position, length, 1, {source.index(), destination.index()}, {1, 1}});
        source.advance(length);
        destination.advance(length);
        position += length;
    }
}

std::int64_t PieceContent::elems() const {
    if (runs) return runs->elems;
    std::int64_t elems = 1;
    for (const PartAxis& axis : axes) elems = geometry::multiply(elems, axis.length);
    return elems;
}

void visit_exchanged(const BlockPair& blocks, const PieceContent& content,
                     const VisitPiece& visit) {
    if (content.runs) {
        PartRuns runs = *content.runs;
        runs.is_exchanged = !runs.is_exchanged;
        return visit(blocks.exchanged(), {{}, &runs});
    }
    std::vector<PartAxis> axes;
    for (const PartAxis& axis : content.axes)
        axes.push_back(
            {axis.start.exchanged(), axis.length, axis.dim.exchanged(),
             axis.table ? std::make_shared<const AxisTable>(axis.table->reversed()) : nullptr,
             axis.step.exchanged()});
    std::ranges::stable_sort(axes, [](const PartAxis& a, const PartAxis& b) {
        return a.dim.destination < b.dim.destination;
    });
    visit(blocks.exchanged(), {axes});
}

std::array<Extent, max_dims> extents_of(std::span<const PartAxis> axes, Side side) {
    std::array<Extent, max_dims> extents;
    for (const PartAxis& axis : axes) {
        Extent along{0, axis.length - 1};
        if (axis.table) along = extent_of(*axis.table, side);
        Extent& sum = extents[static_cast<std::size_t>(axis.dim[side])];
        if (sum.low > sum.high) sum = {0, 0};
        sum.low += axis.start[side] + along.low * axis.step[side];
        sum.high += axis.start[side] + along.high * axis.step[side];
    }
    return extents;
}

bool is_identity(const BlockPair& blocks, const PieceContent& content) {
    if (blocks.source_block != blocks.destination_block) return false;
    if (content.runs) return content.runs->generator->is_identity();
    return std::ranges::all_of(content.axes,
                               [](const PartAxis& axis) { return is_identity(axis); });
}

}  // namespace datamover::plan

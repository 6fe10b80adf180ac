// SPDX-License-Identifier: BSD-3-Clause
// Elements shared by two processes, or ranges of processes, in a block-cyclic redistribution.
#include "plan/grid_overlap.hpp"

#include <algorithm>

namespace datamover::plan {
namespace {

using std::int64_t;

constexpr std::size_t max_sizes = 1'000'000;

BlockCyclicAxis dealt_axis(const BlockCyclic& layout, int d, int64_t lo) {
    if (layout.grid()[d] == 1) return {layout.shape()[d], 1, 0, lo};
    return {layout.block()[d], layout.grid()[d], layout.first_process()[d], lo};
}

/// The dimension with the slowest coordinate comes first.
std::vector<int> slowest_first(const BlockCyclic& layout) {
    std::vector<int> order;
    for (int d = 0; d < layout.dims(); ++d) order.push_back(d);
    if (layout.column_major_grid()) std::ranges::reverse(order);
    return order;
}

}  // namespace

std::optional<GridOverlap> GridOverlap::of(const MotionPlan& plan) {
    const BlockCyclic* source = plan.source().block_cyclic();
    const BlockCyclic* destination = plan.destination().block_cyclic();
    if (source == nullptr || destination == nullptr || plan.size() != 1) return std::nullopt;
    const auto* all = std::get_if<Redistribution>(&plan[0]);
    if (all == nullptr || !all->flip.empty() || all->source_region.empty()) return std::nullopt;
    if (source->replicas() > 1 || destination->replicas() > 1) return std::nullopt;
    GridOverlap overlap;
    overlap.source_ = *source;
    overlap.destination_ = *destination;
    for (int k = 0; k < destination->dims(); ++k) {
        const int d = all->axes.empty() ? k : all->axes[static_cast<std::size_t>(k)];
        overlap.source_dim_.push_back(d);
        overlap.axes_.emplace_back(dealt_axis(*source, d, all->source_region.lo()[d]),
                                   dealt_axis(*destination, k, all->destination_region.lo()[k]),
                                   all->destination_region.extent(k));
    }
    return overlap;
}

int64_t GridOverlap::elems(const Point& source, const Point& destination) const {
    return product([&](const AxisOverlap& axis, int from, int to) {
        return axis.shared(source[from], destination[to]);
    });
}

int64_t GridOverlap::source_elems(const Point& source) const {
    return product(
        [&](const AxisOverlap& axis, int from, int) { return axis.source_elems(source[from]); });
}

int64_t GridOverlap::destination_elems(const Point& destination) const {
    return product([&](const AxisOverlap& axis, int, int to) {
        return axis.destination_elems(destination[to]);
    });
}

int64_t GridOverlap::source_peers(const Point& source) const {
    return product(
        [&](const AxisOverlap& axis, int from, int) { return axis.source_peers(source[from]); });
}

int64_t GridOverlap::destination_peers(const Point& destination) const {
    return product([&](const AxisOverlap& axis, int, int to) {
        return axis.destination_peers(destination[to]);
    });
}

std::vector<GridOverlap::Box> GridOverlap::boxes(const BlockCyclic& layout, int64_t lo,
                                                 int64_t hi) {
    const Point& grid = layout.grid();
    const std::vector<int> order = slowest_first(layout);
    std::vector<Box> found;
    // A range of positions is at most 2d - 1 boxes: along each dimension a partial first and last
    // coordinate, and the whole ones between them.
    const auto cut = [&](auto&& self, std::size_t level, Box box, int64_t from,
                         int64_t to) -> void {
        if (from >= to) return;
        int64_t inner = 1;
        for (std::size_t i = level + 1; i < order.size(); ++i) inner *= grid[order[i]];
        const int d = order[level];
        const auto slice = [&](int64_t c_begin, int64_t c_end) {
            Box part = box;
            part.lo[d] = c_begin;
            part.hi[d] = c_end;
            return part;
        };
        const int64_t first = from / inner, last = (to - 1) / inner;
        if (first == last && to - from < inner) {
            self(self, level + 1, slice(first, first + 1), from - first * inner,
                 to - first * inner);
            return;
        }
        const int64_t whole_begin = (from + inner - 1) / inner, whole_end = to / inner;
        if (from < whole_begin * inner)
            self(self, level + 1, slice(first, first + 1), from - first * inner, inner);
        if (whole_begin < whole_end) found.push_back(slice(whole_begin, whole_end));
        if (whole_end * inner < to)
            self(self, level + 1, slice(last, last + 1), 0, to - whole_end * inner);
    };
    cut(cut, 0, {Point::filled(layout.dims(), 0), grid}, lo, std::min(hi, layout.num_blocks()));
    return found;
}

int64_t GridOverlap::elems(int64_t source_lo, int64_t source_hi, int64_t destination_lo,
                           int64_t destination_hi) const {
    int64_t sum = 0;
    for (const Box& s : boxes(source_, source_lo, source_hi))
        for (const Box& t : boxes(destination_, destination_lo, destination_hi))
            sum += product([&](const AxisOverlap& axis, int from, int to) {
                return axis.shared(s.lo[from], s.hi[from], t.lo[to], t.hi[to]);
            });
    return sum;
}

std::map<int64_t, int64_t> GridOverlap::sizes() const {
    std::map<int64_t, int64_t> product{{1, 1}};
    for (const AxisOverlap& axis : axes_) {
        std::map<int64_t, int64_t> next;
        for (const auto& [size, pairs] : product)
            for (const auto& [axis_size, axis_pairs] : axis.sizes()) {
                next[size * axis_size] += pairs * axis_pairs;
                if (next.size() > max_sizes) return {};
            }
        product = std::move(next);
    }
    return product;
}

int64_t GridOverlap::smallest() const {
    return product([](const AxisOverlap& axis, int, int) {
        return axis.sizes().empty() ? 0 : axis.sizes().begin()->first;
    });
}

int64_t GridOverlap::largest() const {
    return product([](const AxisOverlap& axis, int, int) {
        return axis.sizes().empty() ? 0 : axis.sizes().rbegin()->first;
    });
}

}  // namespace datamover::plan

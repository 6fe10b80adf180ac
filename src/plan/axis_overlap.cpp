// SPDX-License-Identifier: BSD-3-Clause
// Number of indices shared by source and destination coordinates along one dimension.
#include "plan/axis_overlap.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "geometry/make_error.hpp"
#include "plan/redistribution.hpp"

namespace datamover::plan {
namespace {

using geometry::Wide;
using std::int64_t;

constexpr int64_t max_dense_pairs = 4'000'000;

/// Sums that are kept per coordinate and cleared by touching only what was used.
class TouchedSums {
public:
    explicit TouchedSums(int64_t n) : sums_(static_cast<std::size_t>(n), 0) {}
    void add(int64_t i, int64_t amount) {
        int64_t& sum = sums_[static_cast<std::size_t>(i)];
        if (sum == 0) touched_.push_back(i);
        sum += amount;
    }
    template <class Visit>
    void take(Visit&& visit) {
        for (const int64_t i : touched_) {
            visit(i, sums_[static_cast<std::size_t>(i)]);
            sums_[static_cast<std::size_t>(i)] = 0;
        }
        touched_.clear();
    }

private:
    std::vector<int64_t> sums_;
    std::vector<int64_t> touched_;
};

/// Calls visit(begin, end) for the blocks that a coordinate holds of [0, window).
template <class Visit>
void for_each_block(const BlockCyclicAxis& axis, int64_t coordinate, int64_t window,
                    Visit&& visit) {
    for (const AxisSet& set : axis.held(coordinate, coordinate + 1, window))
        for (int64_t t = set.next(0); t != AxisSet::none;) {
            const int64_t left = set.length - (t - set.first) % set.period;
            const int64_t end = left < set.end - t ? t + left : set.end;
            visit(t, end);
            t = set.next(end);
        }
}

bool one_block_each(const BlockCyclicAxis& axis, int64_t extent) {
    return axis.coordinates == 1 || axis.lo + extent <= axis.period();  // lo + extent <= shape
}

}  // namespace

std::array<AxisSet, 2> BlockCyclicAxis::held(int64_t begin, int64_t end, int64_t extent) const {
    const AxisSet nothing = AxisSet::interval(extent, extent);
    if (end - begin == coordinates) return {AxisSet::interval(0, extent), nothing};
    const auto dealt = [&](int64_t from, int64_t to) {  // places in the order of distribution
        const Wide first_index = Wide{from} * block - lo, length = Wide{to - from} * block;
        if (from >= to || first_index >= extent) return nothing;
        const auto first_position = static_cast<int64_t>(first_index);
        // If the period does not fit in an integer, the section has no second round.
        if (period() == std::numeric_limits<int64_t>::max())
            return AxisSet::interval(
                first_position, static_cast<int64_t>(std::min<Wide>(first_index + length, extent)));
        return AxisSet{first_position, static_cast<int64_t>(length), period(), extent};
    };
    const int64_t wrapped = coordinates - first;  // place of coordinate 0
    return {dealt(std::max(begin, first) - first, end - first),
            dealt(begin + wrapped, std::min(end, first) + wrapped)};
}

AxisOverlap::AxisOverlap(const BlockCyclicAxis& source, const BlockCyclicAxis& destination,
                         int64_t extent, int64_t max_walked_blocks)
    : axes_{source, destination}, extent_(extent) {
    for (const Side side : both_sides) peers_[side].resize(to_index(axes_[side].coordinates));
    const int64_t common = std::min(common_period(source.period(), destination.period()), extent);
    const int64_t blocks =
        geometry::bounded_add(geometry::bounded_add(common / source.block, source.coordinates),
                              common / destination.block);
    if (blocks <= max_walked_blocks) {
        count_by_walking(common);
    } else if (one_block_each(source, extent)) {
        count_by_intervals(Side::source);
    } else if (one_block_each(destination, extent)) {
        count_by_intervals(Side::destination);
    } else {
        throw make_error(ErrorCode::unsupported, "the two distributions repeat only after ", common,
                         " indices (", blocks,
                         " blocks): too many to sum over all processes; ask for one rank");
    }
}

void AxisOverlap::count_by_walking(int64_t period) {
    const int64_t repeats = period > 0 ? extent_ / period : 0;
    const int64_t tail = period > 0 ? extent_ % period : 0;
    const auto& [source, destination] = axes_;
    const int64_t row_length = destination.coordinates + 1;
    const bool dense = source.coordinates <= max_dense_pairs / row_length;
    if (dense) below_.assign(to_index((source.coordinates + 1) * row_length), 0);
    TouchedSums row(destination.coordinates);
    for (int64_t a = 0; a < source.coordinates; ++a) {
        for_each_block(source, a, period, [&](int64_t t, int64_t end) {
            while (t < end) {
                const int64_t stop = std::min(end, axes_.destination.block_end(t));
                const int64_t in_tail = std::clamp<int64_t>(tail - t, 0, stop - t);
                row.add(axes_.destination.coordinate_at(t), repeats * (stop - t) + in_tail);
                t = stop;
            }
        });
        row.take([&](int64_t c, int64_t elems) {
            ++peers_.source[to_index(a)];
            ++peers_.destination[to_index(c)];
            ++sizes_[elems];
            if (dense) below_[to_index((a + 1) * row_length + c + 1)] = elems;
        });
        int64_t in_row = 0;
        for (int64_t i = (a + 1) * row_length; dense && i < (a + 2) * row_length; ++i) {
            in_row += below_[to_index(i)];
            below_[to_index(i)] = in_row + below_[to_index(i - row_length)];
        }
    }
}

void AxisOverlap::count_by_intervals(Side whole_side) {
    const BlockCyclicAxis &whole = axes_[whole_side], &dealt = axes_[other(whole_side)];
    auto &whole_peers = peers_[whole_side], &dealt_peers = peers_[other(whole_side)];
    const int64_t q = dealt.coordinates;
    std::vector<int64_t> change(to_index(q) + 1,
                                0);  // of dealt_peers, from coordinate to coordinate
    const auto count_interval = [&](int64_t a, int64_t t, int64_t end) {
        const int64_t blocks =
            (end - 1 + dealt.lo) / dealt.block - (t + dealt.lo) / dealt.block + 1;
        const int64_t touched = std::min(blocks, q);
        const int64_t begin = dealt.coordinate_at(t);
        whole_peers[to_index(a)] += touched;
        ++change[to_index(begin)];
        --change[to_index(std::min(begin + touched, q))];
        if (begin + touched > q) {
            ++change[0];
            --change[to_index(begin + touched - q)];
        }
        // Coordinates, counted from `begin`, hold rounds + 1 blocks up to `more`, then rounds. The
        // interval cuts off the first block, at 0, and the last one, at `last`.
        const int64_t rounds = blocks / q, more = blocks % q, last = (blocks - 1) % q;
        const auto add = [&](int64_t whole_blocks, Wide missing, int64_t pairs) {
            const Wide size = Wide{whole_blocks} * dealt.block - missing;
            if (size > 0 && pairs > 0) sizes_[static_cast<int64_t>(size)] += pairs;
        };
        std::array<int64_t, 2> uncut{q - more, more};  // of coordinates with rounds, rounds + 1
        const auto add_cut = [&](int64_t offset, Wide missing) {
            --uncut[offset < more];
            add(rounds + (offset < more), missing, 1);
        };
        const Wide first_missing = dealt.before_in_block(t);
        const Wide last_missing = dealt.behind_in_block(end - 1);
        add_cut(0, first_missing + (last == 0 ? last_missing : 0));
        if (last != 0) add_cut(last, last_missing);
        for (const int64_t i : {0, 1}) add(rounds + i, 0, uncut[static_cast<std::size_t>(i)]);
    };
    for (int64_t a = 0; a < whole.coordinates; ++a)
        if (whole.coordinates == 1)
            count_interval(a, 0, extent_);
        else
            for_each_block(whole, a, extent_,
                           [&](int64_t t, int64_t end) { count_interval(a, t, end); });
    int64_t running = 0;
    for (std::size_t c = 0; c < to_index(q); ++c) dealt_peers[c] = running += change[c];
}

int64_t AxisOverlap::shared(int64_t source_begin, int64_t source_end, int64_t destination_begin,
                            int64_t destination_end) const {
    if (!below_.empty()) {
        const auto below = [&](int64_t source, int64_t destination) {
            return below_[to_index(source * (axes_.destination.coordinates + 1) + destination)];
        };
        return below(source_end, destination_end) - below(source_begin, destination_end) -
               below(source_end, destination_begin) + below(source_begin, destination_begin);
    }
    int64_t total = 0;
    for (const AxisSet& from : axes_.source.held(source_begin, source_end, extent_))
        for (const AxisSet& to :
             axes_.destination.held(destination_begin, destination_end, extent_))
            total += intersect(from, 0, to, 0, extent_).size();
    return total;
}

// Elements shared by two processes, or ranges of processes, in a block-cyclic redistribution.

namespace {

constexpr std::size_t max_sizes = 1'000'000;

BlockCyclicAxis dealt_axis(const BlockCyclic& layout, int d, int64_t lo) {
    if (layout.grid()[d] == 1) return {layout.shape()[d], 1, 0, lo};
    return {layout.block()[d], layout.grid()[d], layout.first_process()[d], lo};
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
    overlap.layouts_ = {*source, *destination};
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
    return product([&](const AxisOverlap& axis, const PerSide<int>& dim) {
        return axis.shared(source[dim.source], destination[dim.destination]);
    });
}

int64_t GridOverlap::elems(Side side, const Point& position) const {
    return product([&](const AxisOverlap& axis, const PerSide<int>& dim) {
        return axis.elems(side, position[dim[side]]);
    });
}

int64_t GridOverlap::peers(Side side, const Point& position) const {
    return product([&](const AxisOverlap& axis, const PerSide<int>& dim) {
        return axis.peers(side, position[dim[side]]);
    });
}

std::vector<GridOverlap::Box> GridOverlap::boxes_below(Side side, int64_t position) const {
    const BlockCyclic& layout = layouts_[side];
    std::vector<Box> found;
    Box box{Point::filled(layout.dims(), 0), layout.grid()};
    int64_t inner = layout.grid().product();
    position = std::min(position, inner);
    for (int i = 0; i < layout.dims(); ++i) {
        const int d = layout.column_major_grid() ? layout.dims() - 1 - i : i;  // the slowest first
        inner /= layout.grid()[d];
        box.hi[d] = position / inner;
        if (box.hi[d] > 0) found.push_back(box);
        box.lo[d] = box.hi[d];
        ++box.hi[d];
        position %= inner;
    }
    return found;
}

int64_t GridOverlap::elems(const std::vector<Box>& source,
                           const std::vector<Box>& destination) const {
    int64_t sum = 0;
    for (const Box& s : source)
        for (const Box& t : destination)
            sum += product([&](const AxisOverlap& axis, const PerSide<int>& dim) {
                return axis.shared(s.lo[dim.source], s.hi[dim.source], t.lo[dim.destination],
                                   t.hi[dim.destination]);
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

std::pair<int64_t, int64_t> GridOverlap::size_bounds() const {
    std::pair<int64_t, int64_t> bounds{1, 1};
    for (const AxisOverlap& axis : axes_) {
        if (axis.sizes().empty()) return {0, 0};
        bounds.first *= axis.sizes().begin()->first;
        bounds.second *= axis.sizes().rbegin()->first;
    }
    return bounds;
}

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Number of indices shared by source and destination coordinates along one dimension.
#include "plan/axis_overlap.hpp"

#include <algorithm>
#include <numeric>

#include "geometry/make_error.hpp"

namespace datamover::plan {
namespace {

using geometry::Wide;
using std::int64_t;

constexpr int64_t max_dense_pairs = 4'000'000;

/// The smaller of the least common multiple and `bound`, without overflow.
int64_t bounded_lcm(int64_t a, int64_t b, int64_t bound) {
    const int64_t factor = a / std::gcd(a, b);
    return b > bound / factor ? bound : std::min(factor * b, bound);
}

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

/// Calls visit(begin, end) for what the coordinates [c_begin, c_end) hold of [0, window): the
/// blocks of neighbouring coordinates are visited as one.
template <class Visit>
void for_each_block(const BlockCyclicAxis& axis, int64_t c_begin, int64_t c_end, int64_t window,
                    Visit&& visit) {
    const auto positions = [&](int64_t from, int64_t to) {  // in the order of dealing
        const Wide length = Wide{to - from} * axis.block;
        const Wide period = Wide{axis.block} * axis.coordinates;
        Wide begin = Wide{from} * axis.block - axis.lo;
        if (begin + length <= 0) begin += (-begin / period) * period;
        for (; begin < window; begin += period) {
            const auto lo = static_cast<int64_t>(std::max<Wide>(begin, 0));
            const auto hi = static_cast<int64_t>(std::min<Wide>(begin + length, window));
            if (lo < hi) visit(lo, hi);
        }
    };
    const int64_t wrapped = axis.coordinates - axis.first;  // position of coordinate 0
    if (c_end > axis.first)
        positions(std::max(c_begin, axis.first) - axis.first, c_end - axis.first);
    if (c_begin < axis.first) positions(c_begin + wrapped, std::min(c_end, axis.first) + wrapped);
}

bool one_block_each(const BlockCyclicAxis& axis, int64_t extent) {
    return axis.coordinates == 1 || axis.lo + extent <= axis.period();  // lo + extent <= shape
}

}  // namespace

int64_t BlockCyclicAxis::below(int64_t t, int64_t upper) const {
    // Counted from index 0 in the order of dealing, where coordinates [0, upper) are a cyclic
    // range.
    const Wide round = Wide{block} * coordinates;
    const auto count = [&](Wide index, int64_t positions) {
        const Wide held = Wide{positions} * block;
        return static_cast<int64_t>(index / round * held + std::min(index % round, held));
    };
    const auto range = [&](int64_t index) {
        const int64_t wrapped = std::min(first, upper);  // coordinates 0 .. first-1 come last
        const int64_t early = upper - wrapped;
        const int64_t skipped = coordinates - first;
        return count(index, early) + count(index, skipped + wrapped) - count(index, skipped);
    };
    return range(t + lo) - range(lo);
}

AxisOverlap::AxisOverlap(const BlockCyclicAxis& source, const BlockCyclicAxis& destination,
                         int64_t extent, int64_t max_walked_blocks)
    : axes_{source, destination}, extent_(extent) {
    for (const Side side : both_sides) peers_[side].resize(to_index(axes_[side].coordinates));
    const int64_t common = bounded_lcm(source.period(), destination.period(), extent);
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

void AxisOverlap::count_by_walking(int64_t common_period) {
    const int64_t repeats = common_period > 0 ? extent_ / common_period : 0;
    const int64_t tail = common_period > 0 ? extent_ % common_period : 0;
    const auto& [source, destination] = axes_;
    const bool dense = source.coordinates <= max_dense_pairs / destination.coordinates;
    if (dense) dense_.assign(to_index(source.coordinates * destination.coordinates), 0);
    TouchedSums row(destination.coordinates);
    for (int64_t a = 0; a < source.coordinates; ++a) {
        for_each_block(source, a, a + 1, common_period, [&](int64_t t, int64_t end) {
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
            if (dense) dense_[to_index(a * axes_.destination.coordinates + c)] = elems;
        });
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
        // Coordinates, counted from `begin`, hold rounds + 1 blocks up to `more`, then rounds.
        const int64_t rounds = blocks / q, more = blocks % q;
        const int64_t first_missing = dealt.before_in_block(t);
        const int64_t last_missing = dealt.behind_in_block(end - 1);
        const int64_t last = (blocks - 1) % q;
        const auto add = [&](int64_t whole_blocks, Wide missing, int64_t pairs) {
            const Wide size = Wide{whole_blocks} * dealt.block - missing;
            if (size > 0 && pairs > 0) sizes_[static_cast<int64_t>(size)] += pairs;
        };
        const auto full = [&](int64_t offset) { return rounds + (offset < more ? 1 : 0); };
        if (last == 0) {
            add(full(0), Wide{first_missing} + last_missing, 1);
        } else {
            add(full(0), first_missing, 1);
            add(full(last), last_missing, 1);
        }
        const auto special = [&](int64_t from, int64_t to) {  // of the two ends, how many lie here
            return (0 >= from && 0 < to ? 1 : 0) + (last != 0 && last >= from && last < to ? 1 : 0);
        };
        add(rounds + 1, 0, more - special(0, more));
        add(rounds, 0, q - more - special(more, q));
    };
    for (int64_t a = 0; a < whole.coordinates; ++a)
        if (whole.coordinates == 1)
            count_interval(a, 0, extent_);
        else
            for_each_block(whole, a, a + 1, extent_,
                           [&](int64_t t, int64_t end) { count_interval(a, t, end); });
    int64_t running = 0;
    for (std::size_t c = 0; c < to_index(q); ++c) dealt_peers[c] = running += change[c];
}

int64_t AxisOverlap::shared(int64_t source, int64_t destination) const {
    if (!dense_.empty())
        return dense_[to_index(source * axes_.destination.coordinates + destination)];
    return shared(source, source + 1, destination, destination + 1);
}

int64_t AxisOverlap::shared(int64_t source_begin, int64_t source_end, int64_t destination_begin,
                            int64_t destination_end) const {
    if (source_begin >= source_end || destination_begin >= destination_end) return 0;
    if (destination_end - destination_begin == axes_.destination.coordinates)
        return axes_.source.below(extent_, source_end) - axes_.source.below(extent_, source_begin);
    // Walk over the blocks of the side with fewer of them and count on the other in O(1).
    const PerSide<int64_t> begin{source_begin, destination_begin};
    const PerSide<int64_t> end{source_end, destination_end};
    const bool walk_source = axes_.source.period() >= axes_.destination.period();
    const Side walk = walk_source ? Side::source : Side::destination, count = other(walk);
    const BlockCyclicAxis &walked = axes_[walk], &counted = axes_[count];
    const auto count_at = [&](int64_t t) {
        return counted.below(t, end[count]) - counted.below(t, begin[count]);
    };

    const int64_t common = bounded_lcm(walked.period(), counted.period(), extent_);
    const int64_t repeats = common > 0 ? extent_ / common : 0;
    const int64_t tail = common > 0 ? extent_ % common : 0;
    int64_t total = 0;
    for_each_block(walked, begin[walk], end[walk], common, [&](int64_t lo, int64_t hi) {
        const int64_t at_lo = count_at(lo);
        total += repeats * (count_at(hi) - at_lo);
        if (lo < tail) total += count_at(std::min(hi, tail)) - at_lo;
    });
    return total;
}

// Elements shared by two processes, or ranges of processes, in a block-cyclic redistribution.

namespace {

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

std::vector<GridOverlap::Box> GridOverlap::boxes_below(const BlockCyclic& layout,
                                                       int64_t position) {
    std::vector<Box> found;
    Box box{Point::filled(layout.dims(), 0), layout.grid()};
    int64_t inner = layout.grid().product();
    position = std::min(position, inner);
    for (const int d : slowest_first(layout)) {
        inner /= layout.grid()[d];
        box.hi[d] = position / inner;
        if (box.hi[d] > 0) found.push_back(box);
        box.lo[d] = box.hi[d];
        ++box.hi[d];
        position %= inner;
    }
    return found;
}

int64_t GridOverlap::elems_below(int64_t source, int64_t destination) const {
    const std::vector<Box> to = boxes_below(layouts_.destination, destination);
    int64_t sum = 0;
    for (const Box& s : boxes_below(layouts_.source, source))
        for (const Box& t : to)
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

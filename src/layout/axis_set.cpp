// SPDX-License-Identifier: BSD-3-Clause
// Intersection of periodic index sets, without enumerating indices.
#include "datamover/advanced/axis_set.hpp"

#include <numeric>
#include <utility>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"

namespace datamover {
namespace {

using geometry::bounded_add;
using geometry::bounded_multiply;

/// An AxisSet in the coordinate t that both sides share, restricted to the window [lo, hi) with
/// lo >= max(0, set.first). Blocks that begin or end beyond all integers begin or end at the
/// largest: no window reaches further.
struct Periodic {
    AxisSet set;

    std::int64_t block_at_or_before(std::int64_t t) const { return (t - set.first) / set.period; }
    std::int64_t begin(std::int64_t k) const {
        return bounded_add(bounded_multiply(k, set.period), set.first);
    }
    std::int64_t end(std::int64_t k) const { return bounded_add(begin(k), set.length); }
    std::int64_t local(std::int64_t k, std::int64_t t) const {
        return k * set.length + (t - begin(k));
    }
};

/// Half-open window of t.
struct Window {
    std::int64_t lo, hi;
    bool empty() const { return lo >= hi; }
};

/// If only one block of `p` touches the window, narrows the window to it and says so.
bool narrow_to_single_block(const Periodic& p, Window& w) {
    std::int64_t k = p.block_at_or_before(w.lo);
    if (w.lo - p.begin(k) >= p.set.length) ++k;
    if (p.begin(k + 1) < w.hi) return false;
    w = {std::max(w.lo, p.begin(k)), std::min(w.hi, p.end(k))};
    return true;
}

/// Emits the meeting of block `k` of `outer` with all blocks of `inner` inside the window: at most
/// a first partial block, a counted run of whole blocks, and a last partial one.
template <class Emit>
void meet_block(const Periodic& outer, std::int64_t k, const Periodic& inner, Window w,
                Emit&& emit) {
    w.lo = std::max(w.lo, outer.begin(k));
    w.hi = std::min(w.hi, outer.end(k));
    if (w.empty()) return;
    const auto one = [&](std::int64_t j) {
        const std::int64_t lo = std::max(w.lo, inner.begin(j));
        const std::int64_t hi = std::min(w.hi, inner.end(j));
        if (lo < hi) emit(AxisRun{outer.local(k, lo), inner.local(j, lo), hi - lo, 1, 0, 0});
    };
    const auto whole = [&](std::int64_t j) {
        return inner.begin(j) >= w.lo && w.hi - inner.begin(j) >= inner.set.length;
    };
    const std::int64_t first = inner.block_at_or_before(w.lo);
    const std::int64_t last = inner.block_at_or_before(w.hi - 1);
    const std::int64_t first_whole = whole(first) ? first : first + 1;
    const std::int64_t count = (whole(last) ? last : last - 1) - first_whole + 1;
    if (!whole(first)) one(first);
    if (count > 0) {
        emit(AxisRun{outer.local(k, inner.begin(first_whole)), first_whole * inner.set.length,
                     inner.set.length, count, count > 1 ? inner.set.period : 0,
                     count > 1 ? inner.set.length : 0});
    }
    if (last > first && !whole(last)) one(last);
}

AxisRun exchanged(AxisRun r) {
    std::swap(r.source, r.destination);
    std::swap(r.source_step, r.destination_step);
    return r;
}

/// The meetings in the window, ordered by t. Walks over the blocks of the set that has fewer.
std::vector<AxisRun> meet(const Periodic& source, const Periodic& destination, const Window& w) {
    const bool source_outer = source.set.period >= destination.set.period;
    const Periodic& outer = source_outer ? source : destination;
    const Periodic& inner = source_outer ? destination : source;
    std::vector<AxisRun> runs;
    const auto emit = [&](const AxisRun& r) { runs.push_back(source_outer ? r : exchanged(r)); };
    const std::int64_t last = outer.block_at_or_before(w.hi - 1);
    for (std::int64_t k = outer.block_at_or_before(w.lo); k <= last; ++k)
        meet_block(outer, k, inner, w, emit);
    return fold_runs(std::move(runs));
}

AxisTable table_of(std::vector<AxisRun> runs) {
    return runs.empty() ? AxisTable{} : AxisTable(std::move(runs));
}

/// The first t of the window at which the two sets meet, or w.hi.
std::int64_t first_meeting(const AxisSet& a, const AxisSet& b, const Window& w) {
    for (std::int64_t t = w.lo; t < w.hi;) {
        const std::int64_t held = a.next(t);
        if (held == AxisSet::none) break;
        t = b.next(held);
        if (t == held && t < w.hi) return t;
    }
    return w.hi;
}

/// Periods of a single run are one longer run.
AxisTable folded_table(std::vector<AxisRun> runs, std::int64_t periods, std::int64_t source_period,
                       std::int64_t destination_period, const std::vector<AxisRun>& tail) {
    if (runs.size() == 1 && periods > 1) {
        AxisRun& r = runs.front();
        const bool continues = r.count * r.source_step == source_period &&
                               r.count * r.destination_step == destination_period;
        if (r.count == 1 || continues) {
            if (r.count == 1) {
                r.source_step = source_period;
                r.destination_step = destination_period;
            }
            r.count *= periods;
            periods = 1;
        }
    }
    if (periods == 1) {
        runs.insert(runs.end(), tail.begin(), tail.end());
        return AxisTable(fold_runs(std::move(runs)));
    }
    return AxisTable(std::move(runs), periods, source_period, destination_period, tail);
}

}  // namespace

std::vector<std::int64_t> AxisSet::indices() const {
    std::vector<std::int64_t> all(static_cast<std::size_t>(size()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = global(static_cast<std::int64_t>(i));
    return all;
}

AxisSet AxisSet::mirrored() const {
    const std::int64_t blocks = geometry::divide_up(geometry::subtract(end, first), period);
    const std::int64_t last = geometry::add(first, geometry::multiply(blocks - 1, period));
    return {-geometry::add(last, length), length, period, -first};
}

std::int64_t common_period(std::int64_t a, std::int64_t b) {
    return bounded_multiply(a / std::gcd(a, b), b);
}

void check_blocks_to_walk(std::int64_t blocks) {
    constexpr std::int64_t most_blocks = 1 << 24;  // about a second, and some hundred megabytes
    if (blocks > most_blocks)
        throw make_error(ErrorCode::unsupported, "two distributions repeat together only after ",
                         blocks, " blocks, more than ", most_blocks,
                         ": choose block sizes or grids with common factors");
}

AxisTable intersect(const AxisSet& source, std::int64_t source_lo, const AxisSet& destination,
                    std::int64_t destination_lo, std::int64_t extent) {
    Periodic a{source}, b{destination};
    a.set.first = geometry::subtract(a.set.first, source_lo);
    a.set.end = geometry::subtract(a.set.end, source_lo);
    b.set.first = geometry::subtract(b.set.first, destination_lo);
    b.set.end = geometry::subtract(b.set.end, destination_lo);
    Window w{std::max({std::int64_t{0}, a.set.first, b.set.first}),
             std::min({extent, a.set.end, b.set.end})};
    if (w.empty()) return {};

    const bool a_single = narrow_to_single_block(a, w);
    if (w.empty()) return {};
    const bool b_single = narrow_to_single_block(b, w);
    if (w.empty()) return {};
    if (a_single || b_single) return table_of(meet(a, b, w));

    // What does not meet within one period never meets.
    const std::int64_t period = common_period(a.set.period, b.set.period);
    const Window searched{w.lo, period < w.hi - w.lo ? w.lo + period : w.hi};
    check_blocks_to_walk((searched.hi - searched.lo) / std::max(a.set.period, b.set.period));
    w.lo = first_meeting(a.set, b.set, searched);
    if (w.lo == searched.hi) return {};
    if (period >= w.hi - w.lo) return table_of(meet(a, b, w));
    const std::int64_t periods = (w.hi - w.lo) / period;
    const Window tail{w.lo + periods * period, w.hi};
    return folded_table(meet(a, b, {w.lo, w.lo + period}), periods,
                        period / a.set.period * a.set.length, period / b.set.period * b.set.length,
                        tail.empty() ? std::vector<AxisRun>{} : meet(a, b, tail));
}

}  // namespace datamover

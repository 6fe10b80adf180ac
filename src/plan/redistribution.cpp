// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a redistribution of structured layouts, from one table per dimension.
#include "redistribution.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "coverage.hpp"
#include "geometry/checked.hpp"
#include "section_piece.hpp"
#include "section_windows.hpp"

namespace datamover::plan {
namespace {

using geometry::Wide;
using Table = std::shared_ptr<const AxisTable>;

Table table_for(const AxisSet& source, const AxisSet& destination, const SectionFrame& f,
                const Window& w, int k) {
    return std::make_shared<const AxisTable>(intersect(
        source, f.source_lo[k] + w.lo[k], destination, f.destination_lo[k] + w.lo[k], w.extent[k]));
}

PartAxis axis_of(Table table, const SectionFrame& f, int k) {
    const std::int64_t length = table->size();
    return {{}, length, {f.dim(Side::source, k), f.dim(Side::destination, k)}, std::move(table)};
}

/// One block of the source and one of the destination, and their indices per dimension.
struct SetsOfPair {
    BlockPair blocks;
    const std::vector<AxisSet>& source;
    const std::vector<AxisSet>& destination;
};

bool are_intervals(const std::vector<AxisSet>& sets) {
    return std::ranges::all_of(sets, [](const AxisSet& s) { return s.end - s.first <= s.length; });
}

/// Visits the box in which two boxes meet in a window; returns its number of elements.
std::int64_t visit_box(const SetsOfPair& pair, const SectionFrame& f, const Window& w,
                       const VisitPiece& visit) {
    std::array<PartAxis, max_dims> axes;
    const int dims = f.extent.dims();
    for (int k = 0; k < dims; ++k) {
        const int d = f.axes[static_cast<std::size_t>(k)];
        const AxisSet& from = pair.source[static_cast<std::size_t>(d)];
        const AxisSet& to = pair.destination[static_cast<std::size_t>(k)];
        const std::int64_t source = geometry::subtract(f.source_lo[k], from.first);
        const std::int64_t destination = geometry::subtract(f.destination_lo[k], to.first);
        const std::int64_t lo = std::max({w.lo[k], -source, -destination});
        const std::int64_t hi =
            std::min({w.lo[k] + w.extent[k], geometry::subtract(from.end, f.source_lo[k]),
                      geometry::subtract(to.end, f.destination_lo[k])});
        if (lo >= hi) return 0;
        axes[static_cast<std::size_t>(k)] = {
            {source + lo, destination + lo}, hi - lo, {d, k}, nullptr};
    }
    const PieceContent box{std::span(axes).first(static_cast<std::size_t>(dims))};
    visit(pair.blocks, box);
    return box.elems();
}

/// Visits what two blocks have in common in a window; returns its number of elements.
std::int64_t visit_pair(const SetsOfPair& pair, const SectionFrame& f, const Window& w,
                        const VisitPiece& visit) {
    if (are_intervals(pair.source) && are_intervals(pair.destination))
        return visit_box(pair, f, w, visit);
    std::vector<PartAxis> axes;
    for (int k = 0; k < f.extent.dims(); ++k) {
        const auto s = static_cast<std::size_t>(f.axes[static_cast<std::size_t>(k)]);
        axes.push_back(axis_of(
            table_for(pair.source[s], pair.destination[static_cast<std::size_t>(k)], f, w, k), f,
            k));
        if (axes.back().length == 0) return 0;
    }
    visit(pair.blocks, {axes});
    return PieceContent{axes}.elems();
}

/// The processes of a block-cyclic side along one dimension, with the axis towards each.
struct AxisPeer {
    std::int64_t coordinate;
    PartAxis axis;
};

/// Visits all combinations of one entry per dimension.
template <class Visit>
void for_each_combination(const std::vector<std::vector<AxisPeer>>& peers, Visit&& visit) {
    for (const auto& p : peers)
        if (p.empty()) return;
    std::vector<std::size_t> at(peers.size(), 0);
    for (;;) {
        visit(at);
        std::size_t k = peers.size();
        while (k > 0 && ++at[k - 1] == peers[k - 1].size()) at[--k] = 0;
        if (k == 0) return;
    }
}

/// The blocks of a block-cyclic side, of its first replica, that meet a block of the other side.
/// `grid_dims[k]` is the grid's dimension for t's dimension k.
template <class MakePeers, class Visit>
void match_block_cyclic(const BlockCyclic& grid, const std::vector<int>& grid_dims,
                        MakePeers&& make_peers, Visit&& visit) {
    std::vector<std::vector<AxisPeer>> peers;
    peers.reserve(grid_dims.size());
    for (std::size_t k = 0; k < grid_dims.size(); ++k)
        peers.push_back(make_peers(static_cast<int>(k)));
    Point coordinates = grid.grid();
    std::vector<PartAxis> axes(peers.size());
    std::vector<std::size_t> taken(peers.size(), std::numeric_limits<std::size_t>::max());
    for_each_combination(peers, [&](const std::vector<std::size_t>& at) {
        for (std::size_t k = 0; k < peers.size(); ++k) {
            if (std::exchange(taken[k], at[k]) == at[k]) continue;
            coordinates[grid_dims[k]] = peers[k][at[k]].coordinate;
            axes[k] = peers[k][at[k]].axis;
        }
        visit(grid.block_at(coordinates), axes);
    });
}

/// The box, on the other side, of what `sets` hold in the window.
Region bounding_in(const std::vector<AxisSet>& sets, const std::vector<int>& set_dims,
                   const Point& set_lo, const Point& other_lo, const std::vector<int>& other_dims,
                   const Window& w) {
    Point lo = w.lo, hi = w.lo;
    for (int k = 0; k < w.lo.dims(); ++k) {
        const AxisSet& s = sets[static_cast<std::size_t>(set_dims[static_cast<std::size_t>(k)])];
        const int d = other_dims[static_cast<std::size_t>(k)];
        const std::int64_t end = w.lo[k] + w.extent[k];
        lo[d] = other_lo[k] + std::clamp(s.lower() - set_lo[k], w.lo[k], end);
        hi[d] = other_lo[k] + std::clamp(s.upper() - set_lo[k], w.lo[k], end);
    }
    return {lo, hi};
}

std::vector<int> identity_axes(int dims) {
    std::vector<int> axes(static_cast<std::size_t>(dims));
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
}

std::vector<std::int64_t> sorted_once(std::vector<std::int64_t> numbers) {
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
}

/// The term that `term` is the adjoint of: from the destination to the source.
Redistribution forward_of(const Redistribution& term) {
    return {term.destination_region, term.source_region,
            inverse_axes(term.axes), term.partial,
            term.reversed,           false};
}

/// Visits the pieces of a term's forward term, which begin where its own end.
VisitPiece exchanging(const VisitPiece& visit) {
    return [&visit](const BlockPair& blocks, const PieceContent& content) {
        visit_exchanged(blocks, content, visit);
    };
}

bool no_elements(const std::vector<AxisSet>& sets) {
    return std::ranges::any_of(sets, [](const AxisSet& s) { return s.size() == 0; });
}

}  // namespace

bool is_sender(const Layouts& layouts, const BlockPair& blocks, Nodes nodes) {
    const BlockCyclic* grid = layouts.source->block_cyclic();
    return !grid || grid->replicas() == 1 ||
           nearest_replica(*grid, blocks.source_block,
                           layouts.destination->owner(blocks.destination_block),
                           nodes) == blocks.source_block;
}

SectionFrame::SectionFrame(const Redistribution& term)
    : source_lo(term.destination_region.lo()),
      destination_lo(term.destination_region.lo()),
      extent(term.destination_region.shape()),
      axes(term.axes) {
    if (axes.empty()) axes = identity_axes(extent.dims());
    for (int k = 0; k < extent.dims(); ++k)
        source_lo[k] = term.source_region.lo()[axes[static_cast<std::size_t>(k)]];
}

std::vector<std::int64_t> peer_coordinates(const AxisSet& set, std::int64_t set_lo,
                                           const BlockCyclic& other, int d, std::int64_t other_lo,
                                           std::int64_t extent) {
    const std::int64_t p = other.grid()[d], b = other.block()[d];
    const std::int64_t lo = std::max<std::int64_t>(0, set.first - set_lo);
    const std::int64_t hi = std::min(extent, set.upper() - set_lo);
    std::vector<std::int64_t> found;
    if (lo >= hi) return found;
    if (p == 1) return {0};
    // Grids may be huge: where fewer coordinates can be met than there are, only those are kept.
    const bool few = hi - lo < p;
    std::vector<bool> seen(few ? 0 : static_cast<std::size_t>(p), false);
    const auto note = [&](std::int64_t index) {
        const std::int64_t c = other.coordinate_of_index(d, index);
        if (few ? !found.empty() && found.back() == c : seen[static_cast<std::size_t>(c)]) return;
        if (!few) seen[static_cast<std::size_t>(c)] = true;
        found.push_back(c);
    };
    // What does not meet within one common period (and a block of each, cut off by `lo`) never
    // does.
    const std::int64_t period = geometry::bounded_add(
        common_period(set.period, geometry::bounded_multiply(b, p)), std::max(set.period, b));
    const std::int64_t stop = period < hi - lo ? lo + period : hi;
    const auto full = [&] { return static_cast<std::int64_t>(found.size()) == p; };
    std::int64_t walked = 0;
    if (b > set.period) {  // the grid's blocks are fewer: look which of them hold anything
        for (Wide i = (other_lo + lo) / b * b - other_lo; i < stop && !full(); i += b) {
            check_blocks_to_walk(++walked);
            const auto x = static_cast<std::int64_t>(std::max<Wide>(lo, i));
            const auto y = static_cast<std::int64_t>(std::min<Wide>(hi, i + b));
            const std::int64_t into = (x + set_lo - set.first) % set.period;
            if (into < set.length || set.period - into < y - x) note(other_lo + x);
        }
        return sorted_once(std::move(found));
    }
    const Wide first = Wide{set.first} - set_lo;
    // Not negative, so that 64 bits are enough, whose division is quick.
    const auto past = static_cast<std::uint64_t>(lo - first);
    const auto set_period = static_cast<std::uint64_t>(set.period);
    for (Wide begin = first + static_cast<Wide>(past / set_period * set_period);
         begin < stop && !full(); begin += set.period) {
        const auto x = static_cast<std::int64_t>(std::max<Wide>(lo, begin));
        const auto y = static_cast<std::int64_t>(std::min<Wide>(hi, begin + set.length));
        for (Wide i = (other_lo + x) / b * b - other_lo; i < y && x < y && !full(); i += b) {
            check_blocks_to_walk(++walked);
            note(other_lo + static_cast<std::int64_t>(std::max<Wide>(i, x)));
        }
    }
    return sorted_once(std::move(found));
}

void visit_pieces(const Layouts& layouts, const Redistribution& term, Side own_side,
                  std::int64_t block, Nodes nodes, const VisitPiece& visit) {
    const Side far_side = other(own_side);
    if (term.adjoint)
        return visit_pieces(layouts.exchanged(), forward_of(term), far_side, block, nodes,
                            exchanging(visit));
    const Layout &source = *layouts.source, &destination = *layouts.destination;
    if (source.index_list() || destination.index_list())
        return visit_index_pieces(layouts, term, own_side, block, nodes, visit);
    if (source.flat_cyclic() || destination.flat_cyclic())
        return visit_flat_pieces(layouts, term, own_side, block, nodes, visit);
    const Layout &own = *layouts[own_side], &far = *layouts[far_side];
    const bool sends = own_side == Side::source;
    const SectionFrame f(term);
    const auto sets = own.axis_sets(block);
    if (no_elements(sets)) return;
    const PerSide<std::vector<int>> dims{f.axes, identity_axes(f.extent.dims())};
    const Window whole{Point::filled(f.extent.dims(), 0), f.extent};
    for (const Window& w : sends ? sending_windows(source, block, f) : std::vector<Window>{whole}) {
        if (const BlockCyclic* grid = far.block_cyclic()) {
            const auto make_peers = [&](int k) {
                const int d = f.dim(far_side, k);
                const AxisSet& s = sets[static_cast<std::size_t>(f.dim(own_side, k))];
                std::vector<AxisPeer> peers;
                for (const std::int64_t c :
                     peer_coordinates(s, f.lo(own_side)[k] + w.lo[k], *grid, d,
                                      f.lo(far_side)[k] + w.lo[k], w.extent[k])) {
                    const AxisSet there = grid->axis_set(d, c);
                    Table table =
                        sends ? table_for(s, there, f, w, k) : table_for(there, s, f, w, k);
                    if (!table->empty()) peers.push_back({c, axis_of(std::move(table), f, k)});
                }
                return peers;
            };
            match_block_cyclic(
                *grid, dims[far_side], make_peers, [&](std::int64_t first, const auto& axes) {
                    for_each_replica(layouts, own_side, block, *grid, first, nodes,
                                     [&](const BlockPair& blocks) { visit(blocks, {axes}); });
                });
            continue;
        }
        const FloorPlan& boxes = *far.floor_plan();
        const std::vector<std::int64_t> found = boxes.find(
            bounding_in(sets, dims[own_side], f.lo(own_side), f.lo(far_side), dims[far_side], w));
        std::int64_t elems = 0;
        for (const std::int64_t far_block : found) {
            const auto far_sets = far.axis_sets(far_block);
            if (!sends) {
                for (const Window& v : sending_windows(source, far_block, f))
                    elems += visit_pair({{far_block, block}, far_sets, sets}, f, v, visit);
            } else if (is_sender(layouts, {block, far_block}, nodes)) {
                elems += visit_pair({{block, far_block}, sets, far_sets}, f, w, visit);
            }
        }
        if (!needs_all(term, own_side)) continue;
        // Where blocks overlap, what is sent twice may stand for what is missing: only otherwise
        // the number tells.
        const SectionBlock needing(own, block, own_side, f);
        if ((sends && !boxes.disjoint()) || elems != needing.elems_in(w))
            refuse_missing(needing, f, {w},
                           windows_of(boxes, found, f.lo(far_side), dims[far_side], f.extent));
    }
}

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Which pieces of a redistribution begin or end in one block, from one table per dimension?
#include "redistribution.hpp"

#include <algorithm>
#include <numeric>

namespace datamover::plan {
namespace {

/// A box of the shared coordinate t.
struct Window {
    Point lo, extent;
};

using Table = std::shared_ptr<const AxisTable>;

/// The part of t where `region` (of the side whose lower corner per destination dimension is `lo`,
/// dimension k of t being dimension dims[k] of the region) lies.
Window window_of(const Region& region, const Point& lo, const std::vector<int>& dims,
                 const Point& extent) {
    Window w{lo, lo};
    for (int k = 0; k < lo.dims(); ++k) {
        const int d = dims[static_cast<std::size_t>(k)];
        w.lo[k] = std::max<std::int64_t>(region.lo()[d] - lo[k], 0);
        w.extent[k] =
            std::max<std::int64_t>(std::min(region.hi()[d] - lo[k], extent[k]) - w.lo[k], 0);
    }
    return w;
}

/// Where a source block sends from: everywhere, or where no lower-numbered block of a floor plan
/// holds the same points.
std::vector<Window> sending_windows(const Layout& source, std::int64_t block,
                                    const SectionFrame& f) {
    std::vector<Window> windows;
    if (const FloorPlan* fp = source.floor_plan()) {
        for (const Region& r : fp->exclusive_regions(block))
            windows.push_back(window_of(r, f.source_lo, f.axes, f.extent));
    } else {
        windows.push_back({Point::filled(f.extent.dims(), 0), f.extent});
    }
    return windows;
}

Table table_for(const AxisSet& source, const AxisSet& destination, const SectionFrame& f,
                const Window& w, int k) {
    return std::make_shared<const AxisTable>(intersect(
        source, f.source_lo[k] + w.lo[k], destination, f.destination_lo[k] + w.lo[k], w.extent[k]));
}

Piece product_piece(std::int64_t source_block, std::int64_t destination_block,
                    const std::vector<Table>& tables, const std::vector<int>& axes) {
    ProductPiece product;
    product.axes.reserve(tables.size());
    for (std::size_t k = 0; k < tables.size(); ++k)
        product.axes.push_back({tables[k], axes[k], static_cast<int>(k)});
    return {source_block, destination_block, std::move(product)};
}

/// The piece between two blocks in a window, if they meet.
void visit_pair(const std::vector<AxisSet>& source_sets, std::int64_t source_block,
                const std::vector<AxisSet>& destination_sets, std::int64_t destination_block,
                const SectionFrame& f, const Window& w, std::int64_t sequence,
                const VisitPiece& visit) {
    std::vector<Table> tables;
    for (int k = 0; k < f.extent.dims(); ++k) {
        const auto s = static_cast<std::size_t>(f.axes[static_cast<std::size_t>(k)]);
        tables.push_back(
            table_for(source_sets[s], destination_sets[static_cast<std::size_t>(k)], f, w, k));
        if (tables.back()->empty()) return;
    }
    visit(product_piece(source_block, destination_block, tables, f.axes), sequence);
}

/// The processes of a block-cyclic side along one dimension, with the table towards each.
struct AxisPeer {
    std::int64_t coordinate;
    Table table;
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
    for (std::size_t k = 0; k < grid_dims.size(); ++k)
        peers.push_back(make_peers(static_cast<int>(k)));
    Point coordinates = grid.grid();
    std::vector<Table> tables(peers.size());
    for_each_combination(peers, [&](const std::vector<std::size_t>& at) {
        for (std::size_t k = 0; k < peers.size(); ++k) {
            coordinates[grid_dims[k]] = peers[k][at[k]].coordinate;
            tables[k] = peers[k][at[k]].table;
        }
        visit(grid.block_at(coordinates), tables);
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
        lo[d] = other_lo[k] + std::max(w.lo[k], s.lower() - set_lo[k]);
        hi[d] = other_lo[k] + std::min(w.lo[k] + w.extent[k], s.upper() - set_lo[k]);
    }
    return {lo, hi};
}

std::vector<int> identity_axes(int dims) {
    std::vector<int> axes(static_cast<std::size_t>(dims));
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
}

const BlockCyclic* replicated_or_null(const Layout& layout) {
    const BlockCyclic* bc = layout.block_cyclic();
    return bc && bc->replicas() > 1 ? bc : nullptr;
}

bool no_elements(const std::vector<AxisSet>& sets) {
    return std::any_of(sets.begin(), sets.end(), [](const AxisSet& s) { return s.size() == 0; });
}

}  // namespace

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
    std::vector<bool> seen(static_cast<std::size_t>(p), false);
    const auto note = [&](std::int64_t index) {
        const std::int64_t c = other.coordinate_of_index(d, index);
        if (seen[static_cast<std::size_t>(c)]) return;
        seen[static_cast<std::size_t>(c)] = true;
        found.push_back(c);
    };
    const std::int64_t period = common_period(set.period, b * p);
    const std::int64_t stop = period < hi - lo ? lo + period + std::max(set.period, b) : hi;
    const auto full = [&] { return static_cast<std::int64_t>(found.size()) == p; };
    if (b > set.period) {  // the grid's blocks are fewer: look which of them hold anything
        for (std::int64_t i = (other_lo + lo) / b * b; i - other_lo < std::min(stop, hi) && !full();
             i += b) {
            const std::int64_t x = std::max(lo, i - other_lo) + set_lo - set.first;
            const std::int64_t y = std::min(hi, i + b - other_lo) + set_lo - set.first;
            if (x % set.period < set.length || (x / set.period + 1) * set.period < y) note(i);
        }
    }
    for (std::int64_t k = std::max<std::int64_t>(0, (lo + set_lo - set.first) / set.period);
         b <= set.period && !full(); ++k) {
        const std::int64_t x = std::max(lo, set.first + k * set.period - set_lo);
        const std::int64_t y = std::min(hi, set.first + k * set.period - set_lo + set.length);
        if (x >= stop || x >= hi) break;
        for (std::int64_t i = (other_lo + x) / b * b; i < other_lo + y && x < y && !full(); i += b)
            note(std::max(i, other_lo + x));
    }
    std::sort(found.begin(), found.end());
    return found;
}

void pieces_from_source(const Layout& source, const Layout& destination, const Redistribution& term,
                        std::int64_t source_block, Nodes nodes, const VisitPiece& visit) {
    if (source.index_list() || destination.index_list())
        return index_pieces_from_source(source, destination, term, source_block, nodes, visit);
    const BlockCyclic* replicated = replicated_or_null(source);
    const auto sends_to = [&](std::int64_t block) {
        return !replicated || nearest_replica(*replicated, source_block, destination.owner(block),
                                              nodes) == source_block;
    };
    const SectionFrame f(term);
    const auto sets = source.axis_sets(source_block);
    if (no_elements(sets)) return;
    const auto dims = identity_axes(f.extent.dims());
    std::int64_t sequence = 0;
    for (const Window& w : sending_windows(source, source_block, f)) {
        if (const BlockCyclic* bc = destination.block_cyclic()) {
            const auto make_peers = [&](int k) {
                const AxisSet& s =
                    sets[static_cast<std::size_t>(f.axes[static_cast<std::size_t>(k)])];
                std::vector<AxisPeer> peers;
                for (const std::int64_t c :
                     peer_coordinates(s, f.source_lo[k] + w.lo[k], *bc, k,
                                      f.destination_lo[k] + w.lo[k], w.extent[k])) {
                    Table table = table_for(s, bc->axis_set(k, c), f, w, k);
                    if (!table->empty()) peers.push_back({c, std::move(table)});
                }
                return peers;
            };
            const std::int64_t grid_size = bc->num_blocks() / bc->replicas();
            match_block_cyclic(*bc, dims, make_peers, [&](std::int64_t first, const auto& tables) {
                for (std::int64_t block = first; block < bc->num_blocks(); block += grid_size)
                    if (sends_to(block))
                        visit(product_piece(source_block, block, tables, f.axes), sequence);
            });
        } else {
            const Region box = bounding_in(sets, f.axes, f.source_lo, f.destination_lo, dims, w);
            for (const std::int64_t block : destination.floor_plan()->find(box))
                if (sends_to(block))
                    visit_pair(sets, source_block, destination.axis_sets(block), block, f, w,
                               sequence, visit);
        }
        ++sequence;
    }
}

void pieces_into_destination(const Layout& source, const Layout& destination,
                             const Redistribution& term, std::int64_t destination_block,
                             Nodes nodes, const VisitPiece& visit) {
    if (source.index_list() || destination.index_list())
        return index_pieces_into_destination(source, destination, term, destination_block, nodes,
                                             visit);
    const SectionFrame f(term);
    const auto sets = destination.axis_sets(destination_block);
    if (no_elements(sets)) return;
    const Window whole{Point::filled(f.extent.dims(), 0), f.extent};
    if (const BlockCyclic* bc = source.block_cyclic()) {
        const auto make_peers = [&](int k) {
            const int d = f.axes[static_cast<std::size_t>(k)];
            const AxisSet& s = sets[static_cast<std::size_t>(k)];
            std::vector<AxisPeer> peers;
            for (const std::int64_t c :
                 peer_coordinates(s, f.destination_lo[k], *bc, d, f.source_lo[k], f.extent[k])) {
                Table table = table_for(bc->axis_set(d, c), s, f, whole, k);
                if (!table->empty()) peers.push_back({c, std::move(table)});
            }
            return peers;
        };
        const std::int64_t receiver = destination.owner(destination_block);
        match_block_cyclic(*bc, f.axes, make_peers, [&](std::int64_t block, const auto& tables) {
            visit(product_piece(nearest_replica(*bc, block, receiver, nodes), destination_block,
                                tables, f.axes),
                  0);
        });
        return;
    }
    const auto dims = identity_axes(f.extent.dims());
    const Region box = bounding_in(sets, dims, f.destination_lo, f.source_lo, f.axes, whole);
    for (const std::int64_t block : source.floor_plan()->find(box)) {
        const auto source_sets = source.axis_sets(block);
        std::int64_t sequence = 0;
        for (const Window& w : sending_windows(source, block, f))
            visit_pair(source_sets, block, sets, destination_block, f, w, sequence++, visit);
    }
}

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a redistribution of structured layouts, from one table per dimension.
#include "redistribution.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "coverage.hpp"
#include "geometry/checked.hpp"
#include "section_piece.hpp"

namespace datamover::plan {
namespace {

using geometry::Wide;
using Table = std::shared_ptr<const AxisTable>;

/// Between oriented sets; of a flipped source, the table has the positions with the sign changed.
Table table_for(const AxisSet& source, const AxisSet& destination, const SectionFrame& f,
                const Window& w, int k) {
    AxisTable table = intersect(source, f.source_lo[k] + w.lo[k], destination,
                                f.destination_lo[k] + w.lo[k], w.extent[k]);
    if (f.sign(Side::source, k) < 0) table = table.shifted(-source.local(source.end - 1), 0);
    return std::make_shared<const AxisTable>(std::move(table));
}

ProductPiece product_piece(std::int64_t source_block, std::int64_t destination_block,
                           const std::vector<Table>& tables, const SectionFrame& f) {
    ProductPiece product{{source_block, destination_block}, {}};
    product.axes.reserve(tables.size());
    for (int k = 0; k < f.extent.dims(); ++k)
        product.axes.push_back({tables[static_cast<std::size_t>(k)], f.dim(Side::source, k), k,
                                f.sign(Side::source, k)});
    return product;
}

/// One block of the source and one of the destination, and their oriented indices per dimension.
struct SetsOfPair {
    BlockPair blocks;
    const std::vector<AxisSet>& source;
    const std::vector<AxisSet>& destination;
};

bool are_intervals(const std::vector<AxisSet>& sets) {
    return std::ranges::all_of(sets, [](const AxisSet& s) { return s.end - s.first <= s.length; });
}

/// Where two boxes meet in a window.
void visit_box(const SetsOfPair& pair, const SectionFrame& f, const Window& w,
               PieceVisitor& visitor) {
    BoxShape box;
    box.dims = f.extent.dims();
    for (int k = 0; k < box.dims; ++k) {
        const int d = f.axes[static_cast<std::size_t>(k)];
        const AxisSet& from = pair.source[static_cast<std::size_t>(d)];
        const AxisSet& to = pair.destination[static_cast<std::size_t>(k)];
        const std::int64_t source = geometry::subtract(f.source_lo[k], from.first);
        const std::int64_t destination = geometry::subtract(f.destination_lo[k], to.first);
        const std::int64_t lo = std::max({w.lo[k], -source, -destination});
        const std::int64_t hi =
            std::min({w.lo[k] + w.extent[k], geometry::subtract(from.end, f.source_lo[k]),
                      geometry::subtract(to.end, f.destination_lo[k])});
        if (lo >= hi) return;
        box.axis[static_cast<std::size_t>(k)] = {source + lo, destination + lo, hi - lo, d, k};
    }
    visitor.visit(pair.blocks, box);
}

/// What meets between two blocks in a window.
void visit_pair(const SetsOfPair& pair, const SectionFrame& f, const Window& w,
                PieceVisitor& visitor) {
    const bool flips = std::ranges::find(f.flip, true) != f.flip.end();
    if (!flips && are_intervals(pair.source) && are_intervals(pair.destination))
        return visit_box(pair, f, w, visitor);
    std::vector<Table> tables;
    for (int k = 0; k < f.extent.dims(); ++k) {
        const auto s = static_cast<std::size_t>(f.axes[static_cast<std::size_t>(k)]);
        tables.push_back(
            table_for(pair.source[s], pair.destination[static_cast<std::size_t>(k)], f, w, k));
        if (tables.back()->empty()) return;
    }
    visitor.visit(
        product_piece(pair.blocks.source_block, pair.blocks.destination_block, tables, f));
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
    peers.reserve(grid_dims.size());
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

const BlockCyclic* replicated_or_null(const Layout& layout) {
    const BlockCyclic* bc = layout.block_cyclic();
    return bc && bc->replicas() > 1 ? bc : nullptr;
}

std::vector<std::int64_t> sorted_once(std::vector<std::int64_t> numbers) {
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
}

/// The term that `term` is the adjoint of: from the destination to the source.
Redistribution forward_of(const Redistribution& term) {
    const std::vector<int> axes = inverse_axes(term.axes);
    return {term.destination_region,  term.source_region, axes, term.partial, term.reversed, false,
            permuted(term.flip, axes)};
}

/// Visits pieces the other way round.
class ReversingVisitor final : public PieceVisitor {
public:
    explicit ReversingVisitor(PieceVisitor& visitor) : visitor_(visitor) {}

    void visit(const BlockPair& blocks, const BoxShape& box) override {
        BoxShape reversing = box;
        for (const BoxAxis& a : box.axes())
            reversing.axis[static_cast<std::size_t>(a.source_dim)] = {
                a.destination, a.source, a.length, a.destination_dim, a.source_dim};
        visitor_.visit({blocks.destination_block, blocks.source_block}, reversing);
    }
    void visit(ProductPiece&& piece) override {
        std::swap(piece.source_block, piece.destination_block);
        for (PieceAxis& axis : piece.axes)
            axis = {std::make_shared<const AxisTable>(axis.table->reversed()), axis.destination_dim,
                    axis.source_dim, axis.destination_sign, axis.source_sign};
        std::ranges::stable_sort(piece.axes, [](const PieceAxis& a, const PieceAxis& b) {
            return a.destination_dim < b.destination_dim;
        });
        visitor_.visit(std::move(piece));
    }
    void visit(IndexPiece&& piece) override {
        std::swap(piece.source_block, piece.destination_block);
        std::swap(piece.source, piece.destination);
        order_by_destination(piece);
        visitor_.visit(std::move(piece));
    }
    void visit(RangesPiece&& piece) override {
        std::swap(piece.source_block, piece.destination_block);
        piece.flat_side = other(piece.flat_side);
        visitor_.visit(std::move(piece));
    }

private:
    PieceVisitor& visitor_;
};

/// Counts the elements of pieces that it passes on.
class CountingVisitor final : public PieceVisitor {
public:
    explicit CountingVisitor(PieceVisitor& visitor) : visitor_(visitor) {}

    std::int64_t elems() const { return elems_; }

    void visit(const BlockPair& blocks, const BoxShape& box) override {
        elems_ += box.size();
        visitor_.visit(blocks, box);
    }
    void visit(ProductPiece&& piece) override { pass_on(std::move(piece)); }
    void visit(IndexPiece&& piece) override { pass_on(std::move(piece)); }
    void visit(RangesPiece&& piece) override { pass_on(std::move(piece)); }

private:
    template <class Content>
    void pass_on(Content&& piece) {
        elems_ += piece.size();
        visitor_.visit(std::forward<Content>(piece));
    }

    PieceVisitor& visitor_;
    std::int64_t elems_ = 0;
};

/// Flips turn ranges of the flattened array into ranges of single elements.
bool element_by_element(const Layout& source, const Layout& destination,
                        const Redistribution& term) {
    return source.index_list() || destination.index_list() ||
           (!term.flip.empty() && (source.flat_cyclic() || destination.flat_cyclic()));
}

bool no_elements(const std::vector<AxisSet>& sets) {
    return std::ranges::any_of(sets, [](const AxisSet& s) { return s.size() == 0; });
}

}  // namespace

SectionFrame::SectionFrame(const Redistribution& term)
    : source_lo(term.destination_region.lo()),
      destination_lo(term.destination_region.lo()),
      extent(term.destination_region.shape()),
      axes(term.axes),
      flip(term.flip) {
    if (axes.empty()) axes = identity_axes(extent.dims());
    flip.resize(axes.size());
    const Region from = oriented(Side::source, term.source_region);
    for (int k = 0; k < extent.dims(); ++k) source_lo[k] = from.lo()[dim(Side::source, k)];
}

Region SectionFrame::oriented(Side side, const Region& region) const {
    Point lo = region.lo(), hi = region.hi();
    for (int k = 0; k < extent.dims(); ++k) {
        if (sign(side, k) > 0) continue;
        const int d = dim(side, k);
        lo[d] = geometry::subtract(0, region.hi()[d]);
        hi[d] = geometry::subtract(0, region.lo()[d]);
    }
    return {lo, hi};
}

std::vector<AxisSet> SectionFrame::oriented_sets(Side side, const Layout& layout,
                                                 std::int64_t block) const {
    std::vector<AxisSet> sets = layout.axis_sets(block);
    for (int k = 0; k < extent.dims(); ++k)
        if (AxisSet& set = sets[static_cast<std::size_t>(dim(side, k))]; sign(side, k) < 0)
            set = set.mirrored();
    return sets;
}

Point SectionFrame::index(Side side, const Point& t) const {
    Point index = t;
    for (int k = 0; k < t.dims(); ++k) {
        const std::int64_t oriented = t[k] + lo(side)[k];
        index[dim(side, k)] = sign(side, k) < 0 ? -1 - oriented : oriented;
    }
    return index;
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

void pieces_from_source(const Layout& source, const Layout& destination, const Redistribution& term,
                        std::int64_t source_block, Nodes nodes, PieceVisitor& visitor) {
    if (term.adjoint) {
        ReversingVisitor reversing(visitor);
        return pieces_into_destination(destination, source, forward_of(term), source_block, nodes,
                                       reversing);
    }
    if (element_by_element(source, destination, term))
        return index_pieces_from_source(source, destination, term, source_block, nodes, visitor);
    if (source.flat_cyclic() || destination.flat_cyclic())
        return flat_pieces_from_source(source, destination, term, source_block, nodes, visitor);
    const BlockCyclic* replicated = replicated_or_null(source);
    const auto sends_to = [&](std::int64_t block) {
        return !replicated || nearest_replica(*replicated, source_block, destination.owner(block),
                                              nodes) == source_block;
    };
    const SectionFrame f(term);
    const auto sets = f.oriented_sets(Side::source, source, source_block);
    if (no_elements(sets)) return;
    const auto dims = identity_axes(f.extent.dims());
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
                        visitor.visit(product_piece(source_block, block, tables, f));
            });
        } else {
            const Region box = bounding_in(sets, f.axes, f.source_lo, f.destination_lo, dims, w);
            const std::vector<std::int64_t> blocks = destination.floor_plan()->find(box);
            CountingVisitor counting(visitor);
            for (const std::int64_t block : blocks)
                if (sends_to(block))
                    visit_pair({{source_block, block}, sets, destination.axis_sets(block)}, f, w,
                               counting);
            const SectionBlock sending(source, source_block, Side::source, f);
            // Where blocks overlap, what is sent twice may stand for what is missing: only
            // otherwise the number tells.
            if (term.reversed && !term.partial &&
                (!destination.floor_plan()->disjoint() || counting.elems() != sending.elems_in(w)))
                refuse_missing(sending, f, {w},
                               windows_of(*destination.floor_plan(), blocks, f, Side::destination));
        }
    }
}

void pieces_into_destination(const Layout& source, const Layout& destination,
                             const Redistribution& term, std::int64_t destination_block,
                             Nodes nodes, PieceVisitor& visitor) {
    if (term.adjoint) {
        ReversingVisitor reversing(visitor);
        return pieces_from_source(destination, source, forward_of(term), destination_block, nodes,
                                  reversing);
    }
    if (element_by_element(source, destination, term))
        return index_pieces_into_destination(source, destination, term, destination_block, nodes,
                                             visitor);
    if (source.flat_cyclic() || destination.flat_cyclic())
        return flat_pieces_into_destination(source, destination, term, destination_block, nodes,
                                            visitor);
    const SectionFrame f(term);
    const auto sets = destination.axis_sets(destination_block);
    if (no_elements(sets)) return;
    const Window whole{Point::filled(f.extent.dims(), 0), f.extent};
    if (const BlockCyclic* bc = source.block_cyclic()) {
        const auto make_peers = [&](int k) {
            const int d = f.axes[static_cast<std::size_t>(k)];
            const AxisSet& s = sets[static_cast<std::size_t>(k)];
            const std::int64_t to = f.destination_lo[k], from = f.source_lo[k], n = f.extent[k];
            // The grid is not mirrored: of a flipped dimension, both sides are seen from its end.
            const bool flips = f.sign(Side::source, k) < 0;
            const auto coordinates =
                flips ? peer_coordinates(s.mirrored(), -(to + n), *bc, d, -(from + n), n)
                      : peer_coordinates(s, to, *bc, d, from, n);
            std::vector<AxisPeer> peers;
            for (const std::int64_t c : coordinates) {
                const AxisSet held = bc->axis_set(d, c);
                Table table = table_for(flips ? held.mirrored() : held, s, f, whole, k);
                if (!table->empty()) peers.push_back({c, std::move(table)});
            }
            return peers;
        };
        const std::int64_t receiver = destination.owner(destination_block);
        match_block_cyclic(*bc, f.axes, make_peers, [&](std::int64_t block, const auto& tables) {
            visitor.visit(product_piece(nearest_replica(*bc, block, receiver, nodes),
                                        destination_block, tables, f));
        });
        return;
    }
    const auto dims = identity_axes(f.extent.dims());
    const Region box = bounding_in(sets, dims, f.destination_lo, f.source_lo, f.axes, whole);
    const std::vector<std::int64_t> blocks =
        source.floor_plan()->find(f.oriented(Side::source, box));
    CountingVisitor counting(visitor);
    for (const std::int64_t block : blocks) {
        const auto source_sets = f.oriented_sets(Side::source, source, block);
        for (const Window& w : sending_windows(source, block, f))
            visit_pair({{block, destination_block}, source_sets, sets}, f, w, counting);
    }
    if (term.partial || term.reversed) return;
    const SectionBlock needing(destination, destination_block, Side::destination, f);
    if (counting.elems() != needing.elems_in(whole))
        refuse_missing(needing, f, {whole},
                       windows_of(*source.floor_plan(), blocks, f, Side::source));
}

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a redistribution of structured layouts, from one table per dimension.
#include "redistribution.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "coverage.hpp"
#include "geometry/checked.hpp"
#include "section_piece.hpp"

namespace datamover::plan {
namespace {

/// Between oriented sets; of a flipped source, the table has the positions with the sign changed.
PieceAxis axis_between(const AxisSet& source, const AxisSet& destination, const SectionFrame& f,
                       const Region& w, int k) {
    AxisTable table = intersect(source, f.source_lo[k] + w.lo()[k], destination,
                                f.destination_lo[k] + w.lo()[k], w.extent(k));
    const int sign = f.sign(Side::source, k);
    if (sign < 0) table = table.shifted(-source.local(source.end - 1), 0);
    return {std::make_shared<const AxisTable>(std::move(table)), f.dim(Side::source, k), k, sign};
}

/// Where two boxes, of oriented intervals per dimension of t, meet in a window. Returns the number
/// of elements.
std::int64_t visit_box(const BlockPair& blocks, const PerSide<std::span<const AxisSet>>& sets,
                       const SectionFrame& f, const Region& w, const VisitPiece& visit) {
    BlockPiece piece(BoxPiece{blocks});
    BoxShape& box = std::get<BoxPiece>(piece).shape;
    box.dims = f.extent.dims();
    for (int k = 0; k < box.dims; ++k) {
        const auto i = static_cast<std::size_t>(k);
        const AxisSet &from = sets.source[i], &to = sets.destination[i];
        const std::int64_t source = geometry::subtract(f.source_lo[k], from.first);
        const std::int64_t destination = geometry::subtract(f.destination_lo[k], to.first);
        const std::int64_t lo = std::max({w.lo()[k], -source, -destination});
        const std::int64_t hi = std::min({w.hi()[k], geometry::subtract(from.end, f.source_lo[k]),
                                          geometry::subtract(to.end, f.destination_lo[k])});
        if (lo >= hi) return 0;
        box.axis[i] = {source + lo, destination + lo, hi - lo, f.dim(Side::source, k), k};
    }
    const std::int64_t elems = box.size();
    visit(std::move(piece));
    return elems;
}

/// The term that `term` is the adjoint of: from the destination to the source.
Redistribution forward_of(const Redistribution& term) {
    const std::vector<int> axes = inverse_axes(term.axes);
    return {term.destination_region,  term.source_region, axes, term.partial, term.reversed, false,
            permuted(term.flip, axes)};
}

// The same contents the other way round.
void reverse(BoxPiece& piece) {
    piece.shape = reversed(piece.shape);
}
void reverse(ProductPiece& piece) {
    for (PieceAxis& axis : piece.axes) axis = reversed(axis);
    std::ranges::stable_sort(piece.axes, {}, &PieceAxis::destination_dim);
}
void reverse(IndexPiece& piece) {
    std::swap(piece.source, piece.destination);
    order_by_destination(piece);
}
void reverse(RangesPiece& piece) {
    piece.flat_side = other(piece.flat_side);
}

/// Flips turn ranges of the flattened array into ranges of single elements.
bool element_by_element(const BlockOfTerm& own) {
    return own.near().index_list() || own.far().index_list() ||
           (!own.term.flip.empty() && (own.near().flat_cyclic() || own.far().flat_cyclic()));
}

/// The pieces of a block that is a product of sets with blocks that are such products too.
class ProductPieces {
public:
    ProductPieces(const BlockOfTerm& own, const SectionFrame& f, const SectionBlock& held,
                  bool boxes, const MakeAxis& make_axis, const VisitPiece& visit)
        : own_(own),
          far_(other(own.own)),
          f_(f),
          block_(held),
          boxes_(boxes && std::ranges::all_of(held.sets, is_interval)),
          make_axis_(make_axis),
          visit_(visit) {}

    void operator()() const {
        if (any_is_empty(block_.sets)) return;
        const BlockCyclic* grid = own_.far().block_cyclic();
        for (const Region& w : windows_at(own_.own, own_.block, f_.whole())) {
            if (grid)
                with_grid(*grid, w);
            else
                with_boxes(*own_.far().floor_plan(), w);
        }
    }

private:
    /// The parts of a window from which a block of a side sends; if it receives, all of it.
    std::vector<Region> windows_at(Side side, std::int64_t block, const Region& w) const {
        if (side == Side::destination) return {w};
        return sending_windows(own_.layouts.source(), block, f_);
    }

    const AxisSet& set(int k) const { return block_.sets[static_cast<std::size_t>(k)]; }

    /// A process of a grid along one dimension, with the axis of a product towards it.
    struct AxisPeer {
        std::int64_t coordinate;
        PieceAxis axis;
    };

    /// All combinations of a peer of each dimension of t.
    void with_grid(const BlockCyclic& grid, const Region& w) const {
        std::vector<std::vector<AxisPeer>> peers;
        peers.reserve(f_.axes.size());
        Point counts = f_.extent;
        for (int k = 0; k < counts.dims(); ++k) {
            peers.push_back(peers_along(grid, w, k));
            if (peers.back().empty()) return;
            counts[k] = std::ssize(peers.back());
        }
        Point at = grid.grid();
        std::vector<PieceAxis> axes(peers.size());
        Region::from_shape(counts).for_each([&](const Point& number) {
            for (int k = 0; k < number.dims(); ++k) {
                const auto i = static_cast<std::size_t>(k);
                const AxisPeer& peer = peers[i][static_cast<std::size_t>(number[k])];
                at[f_.dim(far_, k)] = peer.coordinate;
                axes[i] = peer.axis;
            }
            own_.for_each_replica(grid.block_at(at), [&](const BlockPair& blocks) {
                visit_(ProductPiece{blocks, axes});
            });
        });
    }

    std::vector<AxisPeer> peers_along(const BlockCyclic& grid, const Region& w, int k) const {
        const std::vector<std::int64_t> found = coordinates(grid, w, k);
        std::vector<AxisPeer> peers;
        peers.reserve(found.size());
        for (const std::int64_t c : found) {
            AxisSet held = grid.axis_set(f_.dim(far_, k), c);
            if (f_.sign(far_, k) < 0) held = held.mirrored();
            PieceAxis axis = make_axis_(k, held, w);
            if (!axis.table->empty()) peers.push_back({c, std::move(axis)});
        }
        return peers;
    }

    std::vector<std::int64_t> coordinates(const BlockCyclic& grid, const Region& w, int k) const {
        const int d = f_.dim(far_, k);
        const std::int64_t lo = f_.lo(own_.own)[k] + w.lo()[k], far_lo = f_.lo(far_)[k] + w.lo()[k];
        const std::int64_t n = w.extent(k);
        // The grid is not mirrored: of a flipped dimension, both sides are seen from its end.
        if (f_.sign(far_, k) < 0)
            return peer_coordinates(set(k).mirrored(), -(lo + n), grid, d, -(far_lo + n), n);
        return peer_coordinates(set(k), lo, grid, d, far_lo, n);
    }

    void with_boxes(const FloorPlan& boxes, const Region& w) const {
        const auto blocks = boxes.find(f_.oriented(far_, bounds_in_other(block_, f_, w)));
        std::int64_t elems = 0;
        for (const std::int64_t block : blocks) {
            if (!own_.meets(block)) continue;
            const auto far_sets = f_.oriented_sets(far_, own_.far(), block);
            for (const Region& v : windows_at(far_, block, w))
                elems += visit_pair(own_.pair_with(block), far_sets, v);
        }
        if (own_.needs_all() && !own_.finds_all(boxes, elems, block_.elems_in(w)))
            refuse_missing(block_, f_, w, windows_of(boxes, blocks, f_, far_));
    }

    /// What meets between two blocks in a window. Returns the number of elements.
    std::int64_t visit_pair(const BlockPair& blocks, std::span<const AxisSet> far_sets,
                            const Region& w) const {
        if (boxes_ && std::ranges::all_of(far_sets, is_interval)) {
            PerSide<std::span<const AxisSet>> sets{block_.sets, far_sets};
            if (far_ == Side::source) std::swap(sets.source, sets.destination);
            return visit_box(blocks, sets, f_, w, visit_);
        }
        ProductPiece product{blocks, {}};
        for (int k = 0; k < f_.extent.dims(); ++k) {
            product.axes.push_back(make_axis_(k, far_sets[static_cast<std::size_t>(k)], w));
            if (product.axes.back().table->empty()) return 0;
        }
        const std::int64_t elems = product.size();
        visit_(std::move(product));
        return elems;
    }

    const BlockOfTerm& own_;
    const Side far_;
    const SectionFrame& f_;
    const SectionBlock& block_;
    const bool boxes_;
    const MakeAxis& make_axis_;
    const VisitPiece& visit_;
};

}  // namespace

bool BlockOfTerm::meets(std::int64_t peer) const {
    const BlockCyclic* grid = own == Side::source ? near().block_cyclic() : nullptr;
    return !grid || grid->replicas() == 1 ||
           nearest_replica(*grid, block, far().owner(peer), nodes) == block;
}

BoxShape reversed(const BoxShape& box) {
    BoxShape result = box;
    for (const BoxAxis& a : box.axes())
        result.axis[static_cast<std::size_t>(a.source_dim)] = {a.destination, a.source, a.length,
                                                               a.destination_dim, a.source_dim};
    return result;
}

PieceAxis reversed(const PieceAxis& axis) {
    return {std::make_shared<const AxisTable>(axis.table->reversed()), axis.destination_dim,
            axis.source_dim, axis.destination_sign, axis.source_sign};
}

ProductPiece product_of(const BlockPair& blocks, const BoxShape& box) {
    ProductPiece product{blocks, {}};
    for (const BoxAxis& a : box.axes())
        product.axes.push_back({std::make_shared<const AxisTable>(
                                    AxisTable::interval(a.source, a.destination, a.length)),
                                a.source_dim, a.destination_dim});
    return product;
}

SectionFrame::SectionFrame(const Redistribution& term)
    : source_lo(term.destination_region.lo()),
      destination_lo(term.destination_region.lo()),
      extent(term.destination_region.shape()),
      axes(term.axes),
      flip(term.flip) {
    if (axes.empty()) {
        axes.resize(static_cast<std::size_t>(extent.dims()));
        std::iota(axes.begin(), axes.end(), 0);
    }
    const Region& region = term.source_region;
    const Region from = flip.empty() ? region : oriented(Side::source, region);
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
    if (side == Side::destination || (flip.empty() && std::ranges::is_sorted(axes))) return sets;
    const std::vector<AxisSet> of_layout = sets;
    for (int k = 0; k < extent.dims(); ++k) {
        const AxisSet& set = of_layout[static_cast<std::size_t>(dim(side, k))];
        sets[static_cast<std::size_t>(k)] = sign(side, k) < 0 ? set.mirrored() : set;
    }
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

Point SectionFrame::t_of(Side side, const Point& index) const {
    Point t = extent;
    for (int k = 0; k < t.dims(); ++k) {
        const std::int64_t i = index[dim(side, k)];
        t[k] = (sign(side, k) < 0 ? -1 - i : i) - lo(side)[k];
    }
    return t;
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
    const auto held_from = [&, all_held = is_interval(set)](std::int64_t t) {
        if (all_held) return t;
        const std::int64_t index = set.next(set_lo + t);
        return index == AxisSet::none ? stop : index - set_lo;
    };
    std::int64_t walked = 0;
    for (std::int64_t t = held_from(lo); t < stop && static_cast<std::int64_t>(found.size()) < p;) {
        check_blocks_to_walk(++walked);
        const std::int64_t index = other_lo + t, left_in_block = b - index % b;
        note(index);
        t = left_in_block < stop - t ? held_from(t + left_in_block) : stop;
    }
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

void pieces_of(const BlockOfTerm& own, const VisitPiece& visit) {
    if (own.term.adjoint) {
        const PlanLayouts layouts(own.layouts.destination(), own.layouts.source());
        const Redistribution forward = forward_of(own.term);
        return pieces_of({layouts, forward, other(own.own), own.block, own.nodes},
                         [&](BlockPiece&& piece) {
                             const auto reverse_content = [](auto& content) {
                                 std::swap(content.source_block, content.destination_block);
                                 reverse(content);
                             };
                             std::visit(reverse_content, piece);
                             visit(std::move(piece));
                         });
    }
    if (element_by_element(own)) return index_pieces_of(own, visit);
    if (own.near().flat_cyclic() || own.far().flat_cyclic()) return flat_pieces_of(own, visit);
    const SectionFrame f(own.term);
    const SectionBlock held{own.near(), own.block, own.own,
                            f.oriented_sets(own.own, own.near(), own.block), f.lo(own.own)};
    const auto axis = [&](int k, const AxisSet& far, const Region& w) {
        const AxisSet& near = held.sets[static_cast<std::size_t>(k)];
        return own.own == Side::source ? axis_between(near, far, f, w, k)
                                       : axis_between(far, near, f, w, k);
    };
    product_pieces(own, f, held, f.flip.empty(), axis, visit);
}

void product_pieces(const BlockOfTerm& own, const SectionFrame& f, const SectionBlock& held,
                    bool boxes, const MakeAxis& make_axis, const VisitPiece& visit) {
    ProductPieces(own, f, held, boxes, make_axis, visit)();
}

}  // namespace datamover::plan

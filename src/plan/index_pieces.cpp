// SPDX-License-Identifier: BSD-3-Clause
// Pieces between two blocks, element by element: one side is an index list, or flat and flipped.
#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "coverage.hpp"
#include "geometry/radix_sort.hpp"
#include "redistribution.hpp"

namespace datamover::plan {
namespace {

/// Where one element lies: its block and its flat row-major place in the block's local array.
struct Place {
    std::int64_t block, flat;
    bool operator==(const Place&) const = default;
};

std::int64_t flatten(const Point& index, const Point& extents) {
    std::int64_t flat = 0;
    for (int d = 0; d < index.dims(); ++d) flat = flat * extents[d] + index[d];
    return flat;
}

Point unflatten(std::int64_t flat, const Point& extents) {
    Point index = extents;
    for (int d = extents.dims() - 1; d >= 0; --d) {
        index[d] = flat % extents[d];
        flat /= extents[d];
    }
    return index;
}

bool is_within(const Point& index, const Point& shape) {
    for (int d = 0; d < shape.dims(); ++d)
        if (index[d] < 0 || index[d] >= shape[d]) return false;
    return true;
}

/// Finds every place that holds a global index, by ascending block; none beyond the layout's
/// domain.
class HolderFinder {
public:
    explicit HolderFinder(const Layout& layout) : layout_(layout) {}

    /// Valid until the next call.
    const std::vector<Place>& operator()(const Point& index) {
        places_.clear();
        if (const FloorPlan* plan = layout_.floor_plan()) {
            in_boxes(*plan, index);
        } else if (const BlockCyclic* bc = layout_.block_cyclic()) {
            if (is_within(index, bc->shape())) in_grid(*bc, index);
        } else if (const FlatCyclic* flat = layout_.flat_cyclic()) {
            if (!is_within(index, flat->shape())) return places_;
            const auto place = flat->place_of(flatten(index, flat->shape()));
            places_.push_back({place.block, place.position});
        } else {
            const IndexList* list = layout_.index_list();
            if (!is_within(index, list->shape())) return places_;
            for (const auto& h : list->holders(flatten(index, list->shape())))
                places_.push_back({h.rank, h.position});
        }
        return places_;
    }

private:
    void in_grid(const BlockCyclic& grid, const Point& index) {
        Point c = index;
        for (int d = 0; d < index.dims(); ++d) c[d] = grid.coordinate_of_index(d, index[d]);
        const std::int64_t first = grid.block_at(c);
        const std::int64_t flat = flatten(grid.local_index(index), grid.block_extents(first));
        const std::int64_t grid_size = grid.num_blocks() / grid.replicas();
        for (std::int64_t block = first; block < grid.num_blocks(); block += grid_size)
            places_.push_back({block, flat});
    }

    /// Where no blocks overlap, the next index is mostly in the block of the one before.
    void in_boxes(const FloorPlan& plan, const Point& index) {
        if (last_block_ >= 0 && last_.contains(index) && plan.disjoint()) {
            places_.push_back({last_block_, flatten(index - last_.lo(), last_.shape())});
            return;
        }
        for (const std::int64_t block :
             plan.find(Region(index, index + Point::filled(index.dims(), 1)))) {
            last_block_ = block;
            last_ = plan.region(block);
            places_.push_back({block, flatten(index - last_.lo(), last_.shape())});
        }
    }

    const Layout& layout_;
    std::vector<Place> places_;
    Region last_;
    std::int64_t last_block_ = -1;
};

/// Whether no two places of a layout hold one element.
bool holds_once(const Layout& layout) {
    if (const BlockCyclic* bc = layout.block_cyclic()) return bc->replicas() == 1;
    if (const FloorPlan* plan = layout.floor_plan()) return plan->disjoint();
    return !layout.index_list();
}

/// Of the places that hold an element, the one that sends it to `receiver`.
const Place& sender(const Layout& source, const std::vector<Place>& places, std::int64_t receiver,
                    Nodes nodes) {
    const BlockCyclic* bc = source.block_cyclic();
    if (!bc) return places.front();
    const std::int64_t block = nearest_replica(*bc, places.front().block, receiver, nodes);
    return places[static_cast<std::size_t>((block - places.front().block) * bc->replicas() /
                                           bc->num_blocks())];
}

/// What one block holds.
class BlockElements {
public:
    BlockElements(const Layout& layout, std::int64_t block)
        : layout_(layout),
          list_(layout.index_list()),
          block_(block),
          extents_(layout.block_extents(block)),
          shape_(layout.domain().hi()) {
        if (const FlatCyclic* flat = layout.flat_cyclic()) flat_set_ = flat->flat_set(block);
        if (layout.has_products()) sets_ = layout.axis_sets(block);
    }

    const Layout& layout() const { return layout_; }
    std::int64_t block() const { return block_; }
    std::int64_t size() const { return extents_.product(); }

    bool knows_all() const { return !list_ || list_->knows_all(); }

    /// A region that holds all of its global indices.
    Region bounds() const {
        if (size() == 0) return Region::empty_region(shape_.dims());
        Point lo = Point::filled(shape_.dims(), 0), hi = shape_;
        for (std::size_t d = 0; d < sets_.size(); ++d) {
            lo[static_cast<int>(d)] = sets_[d].lower();
            hi[static_cast<int>(d)] = sets_[d].upper();
        }
        if (!sets_.empty()) return {lo, hi};
        // The whole rows, along the first dimension, in which its flat indices lie.
        std::int64_t least = flat_set_.lower(), most = flat_set_.upper() - 1;
        if (list_) {
            const auto bounds = std::ranges::minmax(list_->indices_of(block_));
            least = bounds.min;
            most = bounds.max;
        }
        lo[0] = unflatten(least, shape_)[0];
        hi[0] = unflatten(most, shape_)[0] + 1;
        return {lo, hi};
    }

    /// Calls visit(global index, flat local place) for every element.
    template <class Visit>
    void for_each(Visit&& visit) const {
        std::int64_t flat = 0;
        if (list_) {
            for (const std::int64_t i : list_->indices_of(block_))
                visit(unflatten(i, shape_), flat++);
        } else if (sets_.empty()) {
            for (; flat < size(); ++flat) visit(unflatten(flat_set_.global(flat), shape_), flat);
        } else {
            Region::from_shape(extents_).for_each([&](const Point& local) {
                Point global = local;
                for (int d = 0; d < local.dims(); ++d)
                    global[d] = sets_[static_cast<std::size_t>(d)].global(local[d]);
                visit(global, flat++);
            });
        }
    }

private:
    const Layout& layout_;
    const IndexList* list_;
    std::int64_t block_;
    Point extents_, shape_;      // of the local array, and of that which flat indices are of
    std::vector<AxisSet> sets_;  // none for a list, or ranges
    AxisSet flat_set_;
};

/// Calls visit(global index, flat local place) for the elements of a block within `region` that
/// the other side may hold: all of them, or, unless `all` says so, where that is a list with fewer
/// entries near them, those that stand in the list. `there` and `back` map indices to the other
/// side's and back.
template <class There, class Back, class Visit>
void for_each_that_may_meet(const BlockElements& own, const Region& region, const Layout& other,
                            bool all, There&& there, Back&& back, Visit&& visit) {
    const Region near = own.bounds().intersected(region);
    if (near.empty()) return;
    const IndexList* list = all ? nullptr : other.index_list();
    // Where only some holders are known, every element has to be asked for: so that none is missed.
    Point a = there(near.lo()), b = there(near.hi() - Point::filled(near.dims(), 1));
    for (int k = 0; k < a.dims(); ++k)
        if (a[k] > b[k]) std::swap(a[k], b[k]);
    if (list && list->knows_all() && own.knows_all() && is_within(a, list->shape()) &&
        is_within(b, list->shape())) {
        const auto named =
            list->holders_between(flatten(a, list->shape()), flatten(b, list->shape()) + 1);
        if (static_cast<std::int64_t>(named.size()) < own.size()) {
            HolderFinder holders(own.layout());
            std::int64_t last = -1;
            for (const IndexList::Holder& h : named) {
                if (std::exchange(last, h.index) == h.index) continue;
                const Point global = back(unflatten(h.index, list->shape()));
                if (!near.contains(global)) continue;
                for (const Place& place : holders(global))
                    if (place.block == own.block()) visit(global, place.flat);
            }
            return;
        }
    }
    own.for_each([&](const Point& global, std::int64_t flat) {
        if (near.contains(global)) visit(global, flat);
    });
}

}  // namespace

void order_by_destination(IndexPiece& piece) {
    if (std::ranges::is_sorted(piece.destination)) return;
    struct Places {
        std::int64_t source, destination;
    };
    std::vector<Places> places(piece.source.size());
    for (std::size_t i = 0; i < places.size(); ++i)
        places[i] = {piece.source[i], piece.destination[i]};
    geometry::sort_by(std::span(places), &Places::destination);
    for (std::size_t i = 0; i < places.size(); ++i) {
        piece.source[i] = places[i].source;
        piece.destination[i] = places[i].destination;
    }
}

void index_pieces_of(const BlockOfTerm& own, const VisitPiece& visit) {
    const Layout &source = own.layouts.source(), &destination = own.layouts.destination();
    const Side here = own.own, there = other(here);
    const SectionFrame frame(own.term);
    const auto to = [&](Side side, const Point& index) {  // from the other side
        return frame.index(side, frame.t_of(other(side), index));
    };
    const BlockElements elements(own.near(), own.block);
    std::map<std::int64_t, IndexPiece> found;  // by the other side's block
    auto last = found.end();
    const auto keep = [&](std::int64_t peer, std::int64_t sent, std::int64_t received) {
        if (last == found.end() || last->first != peer)
            last = found.try_emplace(peer, IndexPiece{own.pair_with(peer), {}, {}}).first;
        last->second.source.push_back(sent);
        last->second.destination.push_back(received);
    };
    HolderFinder sending(source), receiving(destination);
    const bool all = own.needs_all(), once = holds_once(source);
    const auto send = [&](const Point& global, std::int64_t flat, const auto& receivers) {
        const std::vector<Place>* senders = once ? nullptr : &sending(global);
        for (const Place& at : receivers)
            if (once || sender(source, *senders, destination.owner(at.block), own.nodes) ==
                            Place{own.block, flat})
                keep(at.block, flat, at.flat);
    };
    const auto receive = [&](std::int64_t flat, const auto& senders) {
        const Place& from = sender(source, senders, destination.owner(own.block), own.nodes);
        keep(from.block, from.flat, flat);
    };
    const auto meet = [&](const Point& global, std::int64_t flat) {
        const Point index = to(there, global);
        const std::vector<Place>& places = here == Side::source ? receiving(index) : sending(index);
        if (places.empty()) {
            if (all) refuse_missing(own.near(), own.block, here, index);
        } else if (here == Side::source) {
            send(global, flat, places);
        } else {
            receive(flat, places);
        }
    };
    for_each_that_may_meet(
        elements, own.region(), own.far(), all, [&](const Point& i) { return to(there, i); },
        [&](const Point& i) { return to(here, i); }, meet);
    for (auto& [peer, piece] : found) {
        order_by_destination(piece);
        visit(std::move(piece));
    }
}

}  // namespace datamover::plan

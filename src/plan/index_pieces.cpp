// SPDX-License-Identifier: BSD-3-Clause
// Which single elements go between two blocks when one side lists its indices?
#include <algorithm>
#include <map>
#include <vector>

#include "coverage.hpp"
#include "redistribution.hpp"

namespace datamover::plan {
namespace {

/// Where one element lies: its block and its flat row-major place in the block's local array.
struct Place {
    std::int64_t block, flat;
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

/// Every place that holds a global index, by ascending block.
std::vector<Place> holders(const Layout& layout, const Point& index) {
    std::vector<Place> places;
    if (const BlockCyclic* bc = layout.block_cyclic()) {
        Point c = index;
        for (int d = 0; d < index.dims(); ++d) c[d] = bc->coordinate_of_index(d, index[d]);
        const std::int64_t first = bc->block_at(c), grid_size = bc->num_blocks() / bc->replicas();
        const std::int64_t flat = flatten(bc->local_index(index), bc->block_extents(first));
        for (std::int64_t block = first; block < bc->num_blocks(); block += grid_size)
            places.push_back({block, flat});
    } else if (const FloorPlan* fp = layout.floor_plan()) {
        const Point one = Point::filled(index.dims(), 1);
        for (const std::int64_t block : fp->find(Region(index, index + one))) {
            const Region r = fp->region(block);
            places.push_back({block, flatten(index - r.lo(), r.shape())});
        }
    } else {
        const IndexList* list = layout.index_list();
        for (const auto& h : list->holders(flatten(index, list->shape())))
            places.push_back({h.rank, h.position});
    }
    return places;
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

/// Calls visit(global index, flat local place) for every element of a block.
template <class Visit>
void for_each_element(const Layout& layout, std::int64_t block, Visit&& visit) {
    if (const IndexList* list = layout.index_list()) {
        std::int64_t flat = 0;
        for (const std::int64_t i : list->indices_of(block))
            visit(unflatten(i, list->shape()), flat++);
        return;
    }
    const auto sets = layout.axis_sets(block);
    const Point extents = layout.block_extents(block);
    std::int64_t flat = 0;
    Region::from_shape(extents).for_each([&](const Point& local) {
        Point global = local;
        for (int d = 0; d < local.dims(); ++d)
            global[d] = sets[static_cast<std::size_t>(d)].global(local[d]);
        visit(global, flat++);
    });
}

struct Meeting {
    std::int64_t t, source_flat, destination_flat;
};
using MeetingsByBlock = std::map<std::int64_t, std::vector<Meeting>>;

IndexPiece piece_of(std::vector<Meeting>& meetings) {
    std::sort(meetings.begin(), meetings.end(),
              [](const Meeting& a, const Meeting& b) { return a.t < b.t; });
    IndexPiece piece;
    for (const Meeting& m : meetings) {
        piece.source.push_back(m.source_flat);
        piece.destination.push_back(m.destination_flat);
    }
    return piece;
}

}  // namespace

void index_pieces_from_source(const Layout& source, const Layout& destination,
                              const Redistribution& term, std::int64_t source_block, Nodes nodes,
                              const VisitPiece& visit) {
    const SectionFrame f(term);
    MeetingsByBlock by_block;
    for_each_element(source, source_block, [&](const Point& global, std::int64_t flat) {
        if (!term.source_region.contains(global)) return;
        const auto places = holders(source, global);
        Point t = f.extent;
        for (int k = 0; k < t.dims(); ++k)
            t[k] = global[f.axes[static_cast<std::size_t>(k)]] - f.source_lo[k];
        const auto receivers = holders(destination, t + f.destination_lo);
        if (receivers.empty() && term.reversed && !term.partial)
            refuse_missing(source, source_block, Side::source, t + f.destination_lo);
        for (const Place& p : receivers)
            if (sender(source, places, destination.owner(p.block), nodes).block == source_block)
                by_block[p.block].push_back({flatten(t, f.extent), flat, p.flat});
    });
    for (auto& [block, meetings] : by_block)
        visit(Piece{source_block, block, piece_of(meetings)}, 0);
}

void index_pieces_into_destination(const Layout& source, const Layout& destination,
                                   const Redistribution& term, std::int64_t destination_block,
                                   Nodes nodes, const VisitPiece& visit) {
    const SectionFrame f(term);
    const std::int64_t receiver = destination.owner(destination_block);
    MeetingsByBlock by_block;
    for_each_element(destination, destination_block, [&](const Point& global, std::int64_t flat) {
        if (!term.destination_region.contains(global)) return;
        const Point t = global - f.destination_lo;
        Point at_source = t;
        for (int k = 0; k < t.dims(); ++k)
            at_source[f.axes[static_cast<std::size_t>(k)]] = t[k] + f.source_lo[k];
        const auto places = holders(source, at_source);
        if (places.empty() && (term.partial || term.reversed)) return;
        if (places.empty())
            refuse_missing(destination, destination_block, Side::destination, at_source);
        const Place& from = sender(source, places, receiver, nodes);
        by_block[from.block].push_back({flatten(t, f.extent), from.flat, flat});
    });
    for (auto& [block, meetings] : by_block)
        visit(Piece{block, destination_block, piece_of(meetings)}, 0);
}

}  // namespace datamover::plan

// SPDX-License-Identifier: BSD-3-Clause
// The common interface of all layouts.
#include "datamover/layout.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "bounds.hpp"
#include "geometry/checked.hpp"
#include "geometry/digest.hpp"
#include "geometry/first_use.hpp"
#include "geometry/make_error.hpp"

namespace datamover {

std::int64_t layout::checked_elems(const Point& shape, const char* kind) {
    if (shape.dims() < 1)
        throw make_error(ErrorCode::invalid_argument, "a ", kind,
                         " layout needs 1 to 8 dimensions, got a shape of 0");
    for (int d = 0; d < shape.dims(); ++d)
        if (shape[d] < 0)
            throw make_error(ErrorCode::invalid_argument, "extent ", shape[d], " in dimension ", d,
                             " of shape ", shape, " is negative");
    return shape.product();
}

namespace {

/// The boxes that the processes of a block-cyclic layout hold, or none where some hold no box.
std::optional<FloorPlan> boxes_of(const BlockCyclic& layout) {
    for (int d = 0; d < layout.dims(); ++d)
        if (!layout.holds_intervals(d)) return std::nullopt;
    std::vector<std::int64_t> lo, hi, owners;
    for (std::int64_t block = 0; block < layout.num_blocks(); ++block) {
        const Point at = layout.grid_coordinates(block);
        for (int d = 0; d < layout.dims(); ++d) {
            const AxisSet held = layout.axis_set(d, at[d]);
            lo.push_back(held.lower());
            hi.push_back(held.upper());
        }
        owners.push_back(layout.owner(block));
    }
    return FloorPlan(layout.dims(), lo, hi, owners, layout.nprocs());
}

/// Of a layout of which a rank owns at most one block, by its number; else nullptr.
const BlockOwners* owners_of(const Layout& layout) {
    if (const BlockCyclic* grid = layout.block_cyclic()) return grid;
    return layout.flat_cyclic();
}

}  // namespace

/// What copies of a layout share. The boxes come later, once.
struct [[gnu::visibility("hidden")]] Layout::Shared {
    explicit Shared(Any of_kind) : kind(std::move(of_kind)) {}

    const Any kind;
    geometry::FirstUse<std::optional<FloorPlan>> boxes;
};

template <class Kind>
    requires std::constructible_from<std::variant<BlockCyclic, FloorPlan, IndexList, FlatCyclic>,
                                     Kind>
Layout::Layout(Kind layout) : shared_(std::make_shared<Shared>(std::move(layout))) {}

template Layout::Layout(BlockCyclic);
template Layout::Layout(FloorPlan);
template Layout::Layout(IndexList);
template Layout::Layout(FlatCyclic);

const Layout::Any& Layout::any() const {
    if (!shared_) throw Error(ErrorCode::invalid_argument, "an empty layout was asked something");
    return shared_->kind;
}

const BlockCyclic* Layout::block_cyclic() const {
    return std::get_if<BlockCyclic>(&any());
}
const FloorPlan* Layout::floor_plan() const {
    return std::get_if<FloorPlan>(&any());
}
const IndexList* Layout::index_list() const {
    return std::get_if<IndexList>(&any());
}
const FlatCyclic* Layout::flat_cyclic() const {
    return std::get_if<FlatCyclic>(&any());
}

int Layout::dims() const {
    return std::visit([](const auto& l) { return l.dims(); }, any());
}

std::int64_t Layout::nprocs() const {
    return std::visit([](const auto& l) { return l.nprocs(); }, any());
}

std::int64_t Layout::num_blocks() const {
    return std::visit([](const auto& l) { return l.num_blocks(); }, any());
}

std::int64_t Layout::owner(std::int64_t block) const {
    if (const BlockOwners* owners = owners_of(*this)) return owners->owner(block);
    if (const auto* fp = floor_plan()) return fp->owner(block);
    layout::check_number("block", block, num_blocks());
    return block;
}

std::vector<std::int64_t> Layout::blocks_of(std::int64_t rank) const {
    layout::check_number("rank", rank, nprocs());
    if (const auto* fp = floor_plan()) {
        const auto blocks = fp->blocks_of(rank);
        return {blocks.begin(), blocks.end()};
    }
    const BlockOwners* owners = owners_of(*this);
    const std::int64_t block = owners ? owners->block_of(rank) : rank;
    return block < 0 ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{block};
}

Region Layout::domain() const {
    if (const auto* fp = floor_plan()) return fp->bounding_box();
    return std::visit(
        [](const auto& l) {
            if constexpr (requires { l.shape(); }) return Region::from_shape(l.shape());
            return Region{};
        },
        any());
}

Point Layout::block_extents(std::int64_t block) const {
    if (const auto* bc = block_cyclic()) return bc->block_extents(block);
    if (const auto* fp = floor_plan()) return fp->region(block).shape();
    if (const auto* flat = flat_cyclic()) return Point{flat->flat_set(block).size()};
    return Point{index_list()->count_of(block)};
}

std::vector<AxisSet> Layout::axis_sets(std::int64_t block) const {
    std::vector<AxisSet> sets;
    sets.reserve(static_cast<std::size_t>(dims()));
    if (const auto* bc = block_cyclic()) {
        const Point c = bc->grid_coordinates(block);
        for (int d = 0; d < dims(); ++d) sets.push_back(bc->axis_set(d, c[d]));
    } else if (const auto* fp = floor_plan()) {
        const Region r = fp->region(block);
        for (int d = 0; d < dims(); ++d) sets.push_back(AxisSet::interval(r.lo()[d], r.hi()[d]));
    } else {
        throw make_error(ErrorCode::unsupported, "the blocks of ", describe(),
                         " are no products of sets");
    }
    return sets;
}

const FloorPlan* Layout::boxes() const {
    if (const FloorPlan* fp = floor_plan()) return fp;
    const BlockCyclic* bc = block_cyclic();
    if (!bc) return nullptr;
    const auto& boxes = shared_->boxes.get([&] { return boxes_of(*bc); });
    return boxes ? &*boxes : nullptr;
}

std::int64_t Layout::local_elems(std::int64_t rank) const {
    std::int64_t n = 0;
    for (const std::int64_t block : blocks_of(rank))
        n = geometry::add(n, block_extents(block).product());
    return n;
}

std::string Layout::describe() const {
    if (const auto* bc = block_cyclic())
        return "block-cyclic " + bc->distribution() + " of " + bc->shape().to_string() +
               " on grid " + bc->grid().to_string() +
               (bc->replicas() > 1 ? concat(" in ", bc->replicas(), " replicas") : "");
    const std::string processes = concat(" on ", nprocs(), " processes");
    if (floor_plan()) return concat("floor plan of ", num_blocks(), " blocks", processes);
    if (const auto* flat = flat_cyclic())
        return concat("flat ranges of ", flat->block_elems(), " elements of ", flat->shape(),
                      " on ", flat->num_blocks(),
                      flat->num_blocks() == nprocs() ? "" : " of " + std::to_string(nprocs()),
                      " processes");
    return "index lists over " + index_list()->shape().to_string() + processes;
}

std::int64_t Layout::digest() const {
    geometry::WordDigest digest;
    digest.put(static_cast<std::int64_t>(any().index()));
    digest.put(std::visit([](const auto& l) { return l.digest(); }, any()));
    return digest.value();
}

bool Layout::operator==(const Layout& other) const {
    return shared_ == other.shared_ || (shared_ && other.shared_ && any() == other.any());
}

}  // namespace datamover

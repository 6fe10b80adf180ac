// SPDX-License-Identifier: BSD-3-Clause
// What does any layout answer, whichever kind it is?
#include "datamover/layout.hpp"

#include "datamover/error.hpp"

namespace datamover {

Layout::Layout(BlockCyclic layout) : layout_(std::make_shared<Any>(std::move(layout))) {}
Layout::Layout(FloorPlan layout) : layout_(std::make_shared<Any>(std::move(layout))) {}
Layout::Layout(IndexList layout) : layout_(std::make_shared<Any>(std::move(layout))) {}

const BlockCyclic* Layout::block_cyclic() const {
    return std::get_if<BlockCyclic>(layout_.get());
}
const FloorPlan* Layout::floor_plan() const {
    return std::get_if<FloorPlan>(layout_.get());
}
const IndexList* Layout::index_list() const {
    return std::get_if<IndexList>(layout_.get());
}

int Layout::dims() const {
    return std::visit([](const auto& l) { return l.dims(); }, *layout_);
}

std::int64_t Layout::nprocs() const {
    return std::visit([](const auto& l) { return l.nprocs(); }, *layout_);
}

std::int64_t Layout::num_blocks() const {
    return std::visit([](const auto& l) { return l.num_blocks(); }, *layout_);
}

std::int64_t Layout::owner(std::int64_t block) const {
    if (const auto* bc = block_cyclic()) return bc->owner(block);
    if (const auto* fp = floor_plan()) return fp->owner(block);
    if (block < 0 || block >= num_blocks())
        throw Error(ErrorCode::out_of_range, "block " + std::to_string(block) + " is not in 0.." +
                                                 std::to_string(num_blocks() - 1));
    return block;
}

std::vector<std::int64_t> Layout::blocks_of(std::int64_t rank) const {
    if (rank < 0 || rank >= nprocs())
        throw Error(ErrorCode::out_of_range, "rank " + std::to_string(rank) + " is not in 0.." +
                                                 std::to_string(nprocs() - 1));
    if (const auto* bc = block_cyclic()) {
        const std::int64_t block = bc->block_of(rank);
        return block < 0 ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{block};
    }
    if (const auto* fp = floor_plan()) {
        const auto blocks = fp->blocks_of(rank);
        return {blocks.begin(), blocks.end()};
    }
    return {rank};
}

Region Layout::domain() const {
    if (const auto* bc = block_cyclic()) return Region::from_shape(bc->shape());
    if (const auto* fp = floor_plan()) return fp->bounding_box();
    return Region::from_shape(index_list()->shape());
}

Point Layout::block_extents(std::int64_t block) const {
    if (const auto* bc = block_cyclic()) return bc->block_extents(block);
    if (const auto* fp = floor_plan()) return fp->region(block).shape();
    return Point{static_cast<std::int64_t>(index_list()->indices_of(block).size())};
}

std::vector<AxisSet> Layout::axis_sets(std::int64_t block) const {
    std::vector<AxisSet> sets;
    if (const auto* bc = block_cyclic()) {
        const Point c = bc->grid_coordinates(block);
        for (int d = 0; d < dims(); ++d) sets.push_back(bc->axis_set(d, c[d]));
    } else if (const auto* fp = floor_plan()) {
        const Region r = fp->region(block);
        for (int d = 0; d < dims(); ++d) sets.push_back(AxisSet::interval(r.lo()[d], r.hi()[d]));
    } else {
        throw Error(ErrorCode::unsupported, "the blocks of an index list are no products of sets");
    }
    return sets;
}

std::int64_t Layout::local_elems(std::int64_t rank) const {
    std::int64_t n = 0;
    for (const std::int64_t block : blocks_of(rank)) n += block_extents(block).product();
    return n;
}

std::string Layout::describe() const {
    if (const auto* bc = block_cyclic())
        return "block-cyclic " + bc->distribution() + " of " + bc->shape().to_string() +
               " on grid " + bc->grid().to_string() +
               (bc->replicas() > 1 ? " in " + std::to_string(bc->replicas()) + " replicas" : "");
    const std::string processes = " on " + std::to_string(nprocs()) + " processes";
    if (floor_plan())
        return "floor plan of " + std::to_string(num_blocks()) + " blocks" + processes;
    return "index lists over " + index_list()->shape().to_string() + processes;
}

bool Layout::operator==(const Layout& other) const {
    return layout_ == other.layout_ || (layout_ && other.layout_ && *layout_ == *other.layout_);
}

}  // namespace datamover

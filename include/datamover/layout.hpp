// SPDX-License-Identifier: BSD-3-Clause
// The common interface of all layouts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "datamover/axis_set.hpp"
#include "datamover/block_cyclic.hpp"
#include "datamover/export.h"
#include "datamover/flat_cyclic.hpp"
#include "datamover/floor_plan.hpp"
#include "datamover/index_list.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// One of BlockCyclic, FloorPlan, IndexList, FlatCyclic: numbered blocks, each with an owner. A
/// block is the unit of local storage (KeLP's Grid). A cheap value: what it holds is shared and
/// never changed. Throws out_of_range for a block or rank that it does not have.
class Layout {
public:
    Layout() = default;
    Layout(BlockCyclic layout);
    Layout(FloorPlan layout);
    Layout(IndexList layout);
    Layout(FlatCyclic layout);

    bool valid() const { return shared_ != nullptr; }
    int dims() const;
    std::int64_t nprocs() const;
    std::int64_t num_blocks() const;
    std::int64_t owner(std::int64_t block) const;
    /// The blocks of a rank, ascending.
    std::vector<std::int64_t> blocks_of(std::int64_t rank) const;
    /// The index space: [0, shape), or a floor plan's bounding box.
    Region domain() const;
    /// Extents of a block's local array: a block-cyclic part, a floor plan's region, (n) for a
    /// list and for ranges of the flattened array.
    Point block_extents(std::int64_t block) const;
    /// Whether each block is a product of sets of indices, one per dimension: those of block-cyclic
    /// layouts and floor plans are; index lists and flat layouts have one-dimensional blocks.
    bool has_products() const { return block_cyclic() || floor_plan(); }
    /// Those sets of global indices. Throws unsupported where blocks are no products.
    std::vector<AxisSet> axis_sets(std::int64_t block) const;
    /// The blocks as boxes of equal numbers: a floor plan itself, or one made of a block-cyclic
    /// layout (in O(P), once) of which everybody holds one interval in each dimension. Else
    /// nullptr.
    const FloorPlan* boxes() const;
    /// Number of elements that a rank holds.
    std::int64_t local_elems(std::int64_t rank) const;

    const BlockCyclic* block_cyclic() const;
    const FloorPlan* floor_plan() const;
    const IndexList* index_list() const;
    const FlatCyclic* flat_cyclic() const;
    /// One line for people: "block-cyclic (block, *) on grid (4, 1)".
    std::string describe() const;
    bool operator==(const Layout& other) const;
    /// A number that equal layouts share, and different ones almost surely not; never negative.
    /// O(1) but for the first call of a floor plan, and for a block-cyclic or flat layout with
    /// ranks given.
    std::int64_t digest() const;

private:
    using Any = std::variant<BlockCyclic, FloorPlan, IndexList, FlatCyclic>;
    struct Shared;
    const Any& any() const;
    std::shared_ptr<const Shared> shared_;
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// The common interface of all layouts.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "datamover/advanced/axis_set.hpp"
#include "datamover/block_cyclic.hpp"
#include "datamover/export.h"
#include "datamover/flat_cyclic.hpp"
#include "datamover/floor_plan.hpp"
#include "datamover/index_list.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// One of BlockCyclic, FloorPlan, IndexList, FlatCyclic: numbered blocks, each with an owner. A
/// block is the unit of local storage (KeLP's Grid). A cheap value: copies share its contents,
/// which never change. Functions throw out_of_range for a block or rank that it does not have.
class Layout {
public:
    Layout() = default;
    template <class Kind>
        requires std::constructible_from<
            std::variant<BlockCyclic, FloorPlan, IndexList, FlatCyclic>, Kind>
    Layout(Kind layout);

    bool valid() const { return shared_ != nullptr; }
    int dims() const;
    std::int64_t nprocs() const;
    std::int64_t num_blocks() const;
    std::int64_t owner(std::int64_t block) const;
    /// Return the blocks of a rank, ascending.
    std::vector<std::int64_t> blocks_of(std::int64_t rank) const;
    /// Return the index space: [0, shape), or a floor plan's bounding box.
    Region domain() const;
    /// Return the extents of a block's local array: of a block-cyclic part, of a floor plan's
    /// region, or (n) for a list and for ranges of the flattened array.
    Point block_extents(std::int64_t block) const;
    /// Return whether each block is a product of index sets, one per dimension. This holds for
    /// block-cyclic layouts and floor plans; index lists and flat layouts have one-dimensional
    /// blocks.
    bool has_products() const { return block_cyclic() || floor_plan(); }
    /// Return these sets of global indices. Throws unsupported if blocks are not products.
    std::vector<AxisSet> axis_sets(std::int64_t block) const;
    /// Return the blocks as boxes with the same numbers: a floor plan itself, or one made (in O(P),
    /// once) of a block-cyclic layout with one interval per process in each dimension. Otherwise
    /// nullptr.
    const FloorPlan* boxes() const;
    /// Return the number of elements that a rank holds.
    std::int64_t local_elems(std::int64_t rank) const;

    const BlockCyclic* block_cyclic() const;
    const FloorPlan* floor_plan() const;
    const IndexList* index_list() const;
    const FlatCyclic* flat_cyclic() const;
    /// Describe the layout in one line: "block-cyclic (block, *) on grid (4, 1)".
    std::string describe() const;
    bool operator==(const Layout& other) const;
    /// Return a hash that is equal for equal layouts and almost certainly differs for different
    /// ones; never negative. O(1), except in the first call for a floor plan, and for a
    /// block-cyclic or flat layout with ranks given.
    std::int64_t digest() const;

private:
    using Any = std::variant<BlockCyclic, FloorPlan, IndexList, FlatCyclic>;
    struct Shared;
    const Any& any() const;
    std::shared_ptr<const Shared> shared_;
};

}  // namespace datamover

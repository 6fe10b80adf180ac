// SPDX-License-Identifier: BSD-3-Clause
// Which boxes is an index space cut into, and which process owns each of them?
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datamover/region.hpp"

namespace datamover {

/// An integer function on 0 … k-1: the owner of each block. Source: KeLP's Map.
using Map = std::vector<std::int64_t>;

/// A table of regions, each with an owner (a rank). Regions may overlap, may be of any sizes, and a
/// rank may own any number of them. A value that is cheap to copy (the table is shared and never
/// changed). Found by a spatial index, built at first use. Source: KeLP's FloorPlan.
class FloorPlan {
public:
    FloorPlan() = default;
    /// `regions` must be of one dimension 1..8, `owners` as long as `regions`, every owner in
    /// 0 .. nprocs-1 (nprocs = -1: the largest owner + 1). Throws invalid_argument, mismatch,
    /// out_of_range. O(n).
    FloorPlan(const std::vector<Region>& regions, const Map& owners, std::int64_t nprocs = -1);
    /// The same from flat row-major (n, d) tables, for millions of blocks.
    FloorPlan(int dims, std::span<const std::int64_t> lo, std::span<const std::int64_t> hi,
              std::span<const std::int64_t> owners, std::int64_t nprocs = -1);

    /// `domain` cut into a `grid` of blocks of ceil(extent / grid) points per dimension (the last
    /// ones smaller, or empty), block i (row-major) owned by rank i % nprocs.
    static FloorPlan uniform(const Region& domain, const Point& grid, std::int64_t nprocs);
    /// `domain` cut into tiles of `tile` points (smaller at the upper ends), dealt to the ranks
    /// round robin ("cyclic") or in equal contiguous shares ("block").
    static FloorPlan tiles(const Region& domain, const Point& tile, std::int64_t nprocs,
                           const std::string& mapping = "block");
    /// Cut at the given coordinates: splits[d] holds the inner cut positions of dimension d,
    /// ascending. Block i (row-major) owned by rank i % nprocs.
    static FloorPlan from_splits(const Region& domain,
                                 const std::vector<std::vector<std::int64_t>>& splits,
                                 std::int64_t nprocs);
    /// Recursive bisection of `domain` into one block per weight, sizes in proportion to `weights`
    /// (positive), cut across the longest side. Block i owned by rank i.
    static FloorPlan bisected(const Region& domain, const std::vector<double>& weights);

    int dims() const;
    std::int64_t num_blocks() const;
    std::int64_t nprocs() const;
    Region region(std::int64_t block) const;       ///< throws out_of_range
    std::int64_t owner(std::int64_t block) const;  ///< throws out_of_range
    /// The blocks that a rank owns, ascending. O(log n + answer). Throws out_of_range.
    std::span<const std::int64_t> blocks_of(std::int64_t rank) const;
    Region bounding_box() const;

    /// The blocks whose region intersects `box`, ascending. O(log n + answer) for usual plans.
    std::vector<std::int64_t> find(const Region& box) const;
    /// The part of a block's region that no lower-numbered block holds, as disjoint regions: what
    /// the block sends where regions overlap.
    std::vector<Region> exclusive_regions(std::int64_t block) const;

    bool operator==(const FloorPlan& other) const;

    struct Table;

private:
    std::shared_ptr<const Table> table_;
};

}  // namespace datamover

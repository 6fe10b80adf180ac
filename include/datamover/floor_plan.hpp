// SPDX-License-Identifier: BSD-3-Clause
// Floor plans: any boxes of an index space, each with an owner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datamover/export.h"
#include "datamover/region.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// An integer function on 0 … k-1: the owner of each block. Source: KeLP's Map.
using Map = std::vector<std::int64_t>;

/// A table of regions, each with an owner (a rank). Regions may overlap, may be empty and may have
/// any sizes, and a rank may own any number of them. A value that is cheap to copy, because copies
/// share the table, which never changes. Every function is local and safe to call from several
/// threads. The first use of `find` builds a spatial index in O(n log n). Source: KeLP's FloorPlan.
class FloorPlan {
public:
    /// Make a plan without blocks, dimensions or processes.
    FloorPlan() = default;
    /// Make a plan of `regions`, all with the same number of dimensions (1 to 8), and one owner per
    /// region. Owners are in 0 .. nprocs-1; nprocs = -1: the largest owner + 1, at least 1. Throws
    /// invalid_argument (no regions, dimensions, nprocs), mismatch (lengths, regions of different
    /// dimensions), out_of_range (an owner, or blocks so far apart that their bounding box has
    /// extents beyond 63 bits), no_memory. O(n).
    FloorPlan(const std::vector<Region>& regions, const Map& owners, std::int64_t nprocs = -1);
    /// Make the same plan from flat row-major (n, dims) tables, for millions of blocks; n may be 0.
    /// A block with hi <= lo in any dimension is empty.
    FloorPlan(int dims, std::span<const std::int64_t> lo, std::span<const std::int64_t> hi,
              std::span<const std::int64_t> owners, std::int64_t nprocs = -1);

    /// Divide `domain` evenly into a `grid` of blocks: along a dimension their extents differ by at
    /// most one, the larger ones first. Block i (row-major) is owned by rank i % nprocs. Throws
    /// invalid_argument if a grid dimension or nprocs is not positive, mismatch (dimensions),
    /// out_of_range or no_memory (too many blocks). O(blocks).
    static FloorPlan uniform(const Region& domain, const Point& grid, std::int64_t nprocs);
    /// Divide `domain` into tiles of `tile` points (smaller at the upper ends). `mapping`
    /// distributes them over the ranks round robin ("cyclic") or in contiguous shares as equal as
    /// possible ("block"). Throws as `uniform`, and invalid_argument for another mapping. O(tiles).
    static FloorPlan tiles(const Region& domain, const Point& tile, std::int64_t nprocs,
                           const std::string& mapping = "block");
    /// Divide `domain` at the given coordinates: splits[d] holds the inner cut positions of
    /// dimension d, ascending (equal ones enclose empty blocks). Block i (row-major) is owned by
    /// rank i % nprocs. Throws mismatch (splits of another dimension), out_of_range (a cut outside
    /// the domain), invalid_argument (not ascending, nprocs). O(blocks).
    static FloorPlan from_splits(const Region& domain,
                                 const std::vector<std::vector<std::int64_t>>& splits,
                                 std::int64_t nprocs);
    /// Divide `domain` by recursive bisection into one block per weight, with sizes in proportion
    /// to `weights` (positive). Each cut is across the longest side and rounded to whole points, so
    /// that small blocks may be empty. Block i is owned by rank i. Throws invalid_argument (no
    /// weights, or one that is not positive or not finite). O(n log n). Source: Berger and Bokhari,
    /// IEEE Trans. Computers C-36(5), 1987 (binary decomposition).
    static FloorPlan bisected(const Region& domain, const std::vector<double>& weights);

    /// Return the same blocks with other owners, for example after rebalancing the load. Throws as
    /// the constructor. O(n).
    FloorPlan with_owners(const Map& owners, std::int64_t nprocs = -1) const;

    int dims() const;
    std::int64_t num_blocks() const;
    std::int64_t nprocs() const;
    Region region(std::int64_t block) const;       ///< O(1). Throws out_of_range.
    std::int64_t owner(std::int64_t block) const;  ///< O(1). Throws out_of_range.
    /// Return the blocks that a rank owns, ascending. Valid as long as a copy of this plan exists.
    /// Throws out_of_range. O(log n), after O(n log n) in the first call.
    std::span<const std::int64_t> blocks_of(std::int64_t rank) const;
    /// Return the smallest region that contains every block.
    Region bounding_box() const;

    /// Return the table: row-major (n, dims) lower corners and upper ends (both zero for an empty
    /// block), and n owners. Valid as long as a copy of this plan exists.
    std::span<const std::int64_t> lower_corners() const;
    std::span<const std::int64_t> upper_corners() const;
    std::span<const std::int64_t> owners() const;

    /// Return the blocks whose region intersects `box`, ascending. Throws mismatch if the
    /// dimensions differ. O(log n + results) for usual plans.
    std::vector<std::int64_t> find(const Region& box) const;
    /// Append the blocks whose region intersects `box` to `found`, otherwise as `find`.
    void add_found(const Region& box, std::vector<std::int64_t>& found) const;
    /// Return whether no two regions intersect. The first call costs as much as `find` for every
    /// block; later calls are O(1).
    bool disjoint() const;
    /// Return the part of a block's region that no lower-numbered block holds, as disjoint regions:
    /// the part that the block sends if regions overlap. Throws out_of_range. Cost: that of `find`
    /// if nothing overlaps.
    std::vector<Region> exclusive_regions(std::int64_t block) const;

    /// Compare two tables: regions, owners and number of processes. O(n).
    bool operator==(const FloorPlan& other) const;
    /// Return a hash that is equal for equal tables and almost certainly differs for different
    /// ones; never negative. O(n) in the first call for copies of one plan, then O(1).
    std::int64_t digest() const;

    struct Table;

private:
    std::shared_ptr<const Table> table_;
};

}  // namespace datamover

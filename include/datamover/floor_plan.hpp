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

/// A table of regions, each with an owner (a rank). Regions may overlap, may be empty, may be of
/// any sizes, and a rank may own any number of them. A value that is cheap to copy (the table is
/// shared and never changed); every function is local, and safe to call from several threads. Found
/// by a spatial index, built at the first use of `find` in O(n log n). Source: KeLP's FloorPlan.
class FloorPlan {
public:
    /// No blocks, no dimensions, no processes.
    FloorPlan() = default;
    /// `regions` must be of one dimension 1..8, `owners` as long as `regions`, every owner in
    /// 0 .. nprocs-1 (nprocs = -1: the largest owner + 1, at least 1). Throws invalid_argument (no
    /// regions, dimensions, nprocs), mismatch (lengths, regions of different dimensions),
    /// out_of_range (an owner, or blocks so far apart that their bounding box has extents beyond
    /// 63 bits), no_memory. O(n).
    FloorPlan(const std::vector<Region>& regions, const Map& owners, std::int64_t nprocs = -1);
    /// The same from flat row-major (n, dims) tables, for millions of blocks; n may be 0. A block
    /// with hi <= lo anywhere is empty.
    FloorPlan(int dims, std::span<const std::int64_t> lo, std::span<const std::int64_t> hi,
              std::span<const std::int64_t> owners, std::int64_t nprocs = -1);

    /// `domain` cut evenly into a `grid` of blocks: along a dimension their extents differ by at
    /// most one, the larger ones first. Block i (row-major) is owned by rank i % nprocs. Throws
    /// invalid_argument when a grid dimension or nprocs is not positive, mismatch (dimensions),
    /// out_of_range or no_memory (too many blocks). O(blocks).
    static FloorPlan uniform(const Region& domain, const Point& grid, std::int64_t nprocs);
    /// `domain` cut into tiles of `tile` points (smaller at the upper ends), dealt to the ranks
    /// round robin ("cyclic") or in contiguous shares as equal as possible ("block"). Errors as
    /// `uniform`; invalid_argument for another mapping. O(tiles).
    static FloorPlan tiles(const Region& domain, const Point& tile, std::int64_t nprocs,
                           const std::string& mapping = "block");
    /// Cut at the given coordinates: splits[d] holds the inner cut positions of dimension d,
    /// ascending (equal ones enclose empty blocks). Block i (row-major) owned by rank i % nprocs.
    /// Throws mismatch (splits of another dimension), out_of_range (a cut outside the domain),
    /// invalid_argument (not ascending, nprocs). O(blocks).
    static FloorPlan from_splits(const Region& domain,
                                 const std::vector<std::vector<std::int64_t>>& splits,
                                 std::int64_t nprocs);
    /// Recursive bisection of `domain` into one block per weight, sizes in proportion to `weights`
    /// (positive), each cut across the longest side and rounded to whole points, so that small
    /// blocks may come out empty. Block i owned by rank i. Throws invalid_argument (no weights, one
    /// not positive or not finite). O(n log n). Source: Berger and Bokhari, IEEE Trans. Computers
    /// C-36(5), 1987 (binary decomposition).
    static FloorPlan bisected(const Region& domain, const std::vector<double>& weights);

    /// The same blocks with other owners, as after balancing the load anew. Errors as in the
    /// constructor. O(n).
    FloorPlan with_owners(const Map& owners, std::int64_t nprocs = -1) const;

    int dims() const;
    std::int64_t num_blocks() const;
    std::int64_t nprocs() const;
    Region region(std::int64_t block) const;       ///< O(1). Throws out_of_range.
    std::int64_t owner(std::int64_t block) const;  ///< O(1). Throws out_of_range.
    /// The blocks that a rank owns, ascending. O(log n), after O(n log n) at the first call. Valid
    /// as long as a copy of this plan exists. Throws out_of_range.
    std::span<const std::int64_t> blocks_of(std::int64_t rank) const;
    /// The smallest region that holds every block.
    Region bounding_box() const;

    /// The table itself: row-major (n, dims) lower corners and upper ends (both zero for an empty
    /// block), and n owners. Valid as long as a copy of this plan exists.
    std::span<const std::int64_t> lower_corners() const;
    std::span<const std::int64_t> upper_corners() const;
    std::span<const std::int64_t> owners() const;

    /// The blocks whose region intersects `box`, ascending. O(log n + answer) for usual plans.
    /// Throws mismatch when the dimensions differ.
    std::vector<std::int64_t> find(const Region& box) const;
    /// Appends them to `found`.
    void add_found(const Region& box, std::vector<std::int64_t>& found) const;
    /// Whether no two regions intersect. As `find` for every block at the first call, then O(1).
    bool disjoint() const;
    /// The part of a block's region that no lower-numbered block holds, as disjoint regions: what
    /// the block sends where regions overlap. The cost is that of `find` where nothing overlaps.
    /// Throws out_of_range.
    std::vector<Region> exclusive_regions(std::int64_t block) const;

    /// The same table: regions, owners and number of processes. O(n).
    bool operator==(const FloorPlan& other) const;
    /// A number that equal tables share, and different ones almost surely not; never negative. O(n)
    /// at the first call for copies of one plan, then O(1).
    std::int64_t digest() const;

    struct Table;

private:
    const Table& table() const;

    std::shared_ptr<const Table> table_;
};

}  // namespace datamover

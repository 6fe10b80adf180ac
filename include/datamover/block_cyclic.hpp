// SPDX-License-Identifier: BSD-3-Clause
// Block-cyclic layouts: an array distributed in blocks over a process grid.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datamover/axis_set.hpp"
#include "datamover/export.h"
#include "datamover/region.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// How one dimension is dealt out, in HPF's words.
struct AxisDistribution {
    enum class Kind { block, cyclic, collapsed };
    Kind kind = Kind::collapsed;
    std::int64_t block = 0;  ///< 0: chosen (BLOCK: ceil(N/P), CYCLIC: 1)
};

/// Reads "(block, cyclic(64), *)"; also "block(k)". Throws invalid_argument and names the word.
std::vector<AxisDistribution> parse_distribution(const std::string& text);

/// What besides shape and distribution may be said of a block-cyclic layout; all optional.
struct BlockCyclicOptions {
    std::optional<std::vector<std::int64_t>> grid{};  ///< processes per dimension, 1 where `*`
    std::vector<std::int64_t> first_process{};        ///< ScaLAPACK's RSRC, CSRC; zeros when empty
    bool column_major_grid = false;
    std::vector<std::int64_t>
        ranks{};  ///< block number (replica by replica, in grid order) to rank; identity when empty
    std::int64_t replicas = 1;  ///< copies of the whole array, each on a grid of its own
};

/// An array of `shape` in the block-cyclic distribution of HPF and ScaLAPACK over a process grid.
/// Block number = grid position in grid order; its rank is ranks[position]. With replicas, replica
/// r's blocks are numbered from r times the grid's size on: HPF's ALIGN WITH T(..., *), the
/// replicas being a dimension of the process grid that no dimension of the array has. Local storage
/// of a process is the dense array of `local_shape(rank)`. A value. O(1) in memory whatever the
/// array. Source: HPF's BLOCK, CYCLIC(k), *; BLOCK is ceil(N/P).
class BlockCyclic {
public:
    BlockCyclic() = default;
    /// Throws invalid_argument on a shape or block or grid that is not positive, a grid dimension
    /// other than 1 where the distribution says `*`, more blocks than processes, more processes
    /// than 2^31 - 1, a number of ranks other than that of the blocks, a rank twice; and
    /// out_of_range for ranks outside 0 .. nprocs-1, and for more elements than 63 bits can count.
    BlockCyclic(const Point& shape, const std::string& distribution, std::int64_t nprocs,
                const BlockCyclicOptions& options = {});

    /// Dealt cyclically in blocks of `block` elements to a row-major `grid` of as many processes as
    /// it has places: ScaLAPACK's layout, in any number of dimensions. Throws invalid_argument as
    /// above, and mismatch where `block` or `grid` has not as many dimensions as the shape.
    static BlockCyclic cyclic(const Point& shape, const Point& block, const Point& grid);

    int dims() const { return shape_.dims(); }
    const Point& shape() const { return shape_; }
    std::int64_t nprocs() const { return nprocs_; }
    const Point& grid() const { return grid_; }
    const Point& block() const { return block_; }  ///< block size per dimension, <= shape
    const Point& first_process() const { return first_process_; }
    bool column_major_grid() const { return column_major_grid_; }
    const std::vector<std::int64_t>& ranks() const { return ranks_; }

    std::int64_t replicas() const { return replicas_; }

    std::int64_t num_blocks() const { return grid_.product() * replicas_; }
    /// Rank of a block. O(1). Throws out_of_range.
    std::int64_t owner(std::int64_t block) const;
    /// Block of a rank, or -1 for a rank without one. O(1), O(log P) with ranks given. This and all
    /// below throw out_of_range for a rank, block, dimension, coordinate or index that is none.
    std::int64_t block_of(std::int64_t rank) const;
    Point grid_coordinates(std::int64_t block) const;
    /// The block of the first replica.
    std::int64_t block_at(const Point& grid_coordinates) const;

    /// The indices along dimension d of the processes at grid coordinate c in that dimension.
    AxisSet axis_set(int d, std::int64_t coordinate) const;
    /// Whether every process holds one interval along dimension d: `block`, `*`, or cyclic blocks
    /// of which nobody holds two.
    bool holds_intervals(int d) const;
    /// Extents of a block's dense local array.
    Point block_extents(std::int64_t block) const;
    /// Extents of a rank's local array; zeros for a rank outside the grid.
    Point local_shape(std::int64_t rank) const;
    /// Grid coordinate along d of the processes that hold index i.
    std::int64_t coordinate_of_index(int d, std::int64_t i) const;
    /// Rank that owns an index, of the first replica.
    std::int64_t owner_of(const Point& index) const;
    /// Global index to the local one on its owner, and back.
    Point local_index(const Point& global) const;
    Point global_index(std::int64_t rank, const Point& local) const;
    /// The global indices that a rank holds, ascending, a list for each dimension; its part is
    /// their product. Empty lists for a rank outside the grid. O(sum of the local extents) in time
    /// and memory.
    std::vector<std::vector<std::int64_t>> global_indices(std::int64_t rank) const;

    /// "(block, cyclic(64), *)" as given, blocks made explicit where the user gave them.
    const std::string& distribution() const { return distribution_; }
    /// The same blocks of the same extents at the same ranks, however the distribution was written.
    bool operator==(const BlockCyclic& other) const;
    /// A number that equal layouts share, and different ones almost surely not; never negative.
    /// O(1), O(P) with ranks given.
    std::int64_t digest() const;

private:
    Point shape_, grid_, block_, first_process_;
    std::string distribution_;
    std::int64_t nprocs_ = 0, replicas_ = 1;
    bool column_major_grid_ = false;
    std::vector<std::int64_t> ranks_;
    std::vector<std::int64_t> positions_by_rank_;  // sorted (rank, position) when ranks are given
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Block-cyclic layouts: an array distributed in blocks over a process grid.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datamover/advanced/axis_set.hpp"
#include "datamover/block_grid.hpp"
#include "datamover/export.h"
#include "datamover/region.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// The distribution of one dimension, in HPF's terms.
struct AxisDistribution {
    enum class Kind { block, cyclic, collapsed };
    Kind kind = Kind::collapsed;
    std::int64_t block = 0;  ///< 0: chosen (BLOCK: ceil(N/P), CYCLIC: 1)
};

/// Parse a distribution such as "(block, cyclic(64), *)"; also "block(k)". Throws invalid_argument,
/// naming the invalid word.
std::vector<AxisDistribution> parse_distribution(const std::string& text);

/// Options of a block-cyclic layout besides shape and distribution, all with defaults.
struct BlockCyclicOptions {
    std::optional<std::vector<std::int64_t>>
        grid{};  ///< processes per dimension, 1 for `*`; chosen if not given
    std::vector<std::int64_t> first_process{};  ///< ScaLAPACK's RSRC, CSRC; empty: zeros
    bool column_major_grid = false;
    std::vector<std::int64_t> ranks{};  ///< rank of each block (replica by replica, in grid order);
                                        ///< empty: rank = block number
    std::int64_t replicas = 1;          ///< copies of the whole array, each on its own grid
};

/// An array of `shape` in the block-cyclic distribution of HPF and ScaLAPACK over a process grid. A
/// value; its size in memory is O(1) in the size of the array. The number of a block is its grid
/// position in grid order; its rank is ranks[position]. The blocks of replica r are numbered from r
/// times the size of the grid. Replication is HPF's ALIGN WITH T(..., *): the replicas are a
/// dimension of the process grid to which no dimension of the array is mapped. The local storage of
/// a process is the dense array of `local_shape(rank)`. Source: HPF's BLOCK, CYCLIC(k), *; BLOCK is
/// ceil(N/P).
class BlockCyclic : public BlockGrid {
public:
    BlockCyclic() = default;
    /// Make a layout of an array of `shape` over `nprocs` processes. Throws invalid_argument if an
    /// extent is negative, a block or grid is not positive, a grid dimension is not 1 although the
    /// distribution is `*`, there are more blocks than processes or more than 2^31 - 1 processes,
    /// or `ranks` has another length than there are blocks or repeats a rank. Throws out_of_range
    /// for ranks outside 0 .. nprocs-1, and for more elements than 63 bits can count.
    BlockCyclic(const Point& shape, const std::string& distribution, std::int64_t nprocs,
                const BlockCyclicOptions& options = {});

    /// Make a layout with blocks of `block` elements distributed cyclically over a row-major
    /// `grid`, one process per grid position: ScaLAPACK's layout, in any number of dimensions.
    /// Throws invalid_argument as above, and mismatch if `block` or `grid` does not have as many
    /// dimensions as the shape.
    static BlockCyclic cyclic(const Point& shape, const Point& block, const Point& grid);

    int dims() const { return shape_.dims(); }
    const Point& shape() const { return shape_; }
    const Point& block() const { return block_; }  ///< block size per dimension, <= shape
    const Point& first_process() const { return first_process_; }

    /// Return the indices along dimension d of the processes at grid coordinate `coordinate` in
    /// that dimension. This and all functions below throw out_of_range for an invalid rank, block,
    /// dimension, coordinate or index.
    AxisSet axis_set(int d, std::int64_t coordinate) const;
    /// Return whether every process holds one interval along dimension d: `block`, `*`, or cyclic
    /// blocks of which no process holds two.
    bool holds_intervals(int d) const;
    /// Return the extents of a block's dense local array.
    Point block_extents(std::int64_t block) const;
    /// Return the extents of a rank's local array; zeros for a rank outside the grid.
    Point local_shape(std::int64_t rank) const;
    /// Return the grid coordinate along d of the processes that hold index i.
    std::int64_t coordinate_of_index(int d, std::int64_t i) const;
    /// Return the rank that owns an index in the first replica.
    std::int64_t owner_of(const Point& index) const;
    /// Convert a global index to the local index on its owner, and a local index to the global one.
    Point local_index(const Point& global) const;
    Point global_index(std::int64_t rank, const Point& local) const;
    /// Return the global indices that a rank holds, ascending, one list per dimension; its part is
    /// their product. The lists are empty for a rank outside the grid. O(sum of the local extents)
    /// in time and memory.
    std::vector<std::vector<std::int64_t>> global_indices(std::int64_t rank) const;

    /// Return the distribution as given, such as "(block, cyclic(64), *)", with the blocks that the
    /// user specified made explicit.
    const std::string& distribution() const { return distribution_; }
    /// Compare two layouts: equal if they have the same blocks with the same extents on the same
    /// ranks, however the distributions were written.
    bool operator==(const BlockCyclic& other) const;
    /// Return a hash that is equal for equal layouts and almost certainly differs for different
    /// ones; never negative. O(1), or O(P) if ranks were given.
    std::int64_t digest() const;

private:
    Point shape_, block_, first_process_;
    std::string distribution_;
};

}  // namespace datamover

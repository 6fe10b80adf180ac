// SPDX-License-Identifier: BSD-3-Clause
// The owners of blocks, and blocks numbered along a grid of processes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "datamover/export.h"
#include "datamover/point.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// Numbered blocks of which a rank owns at most one: block b is on rank ranks[b], or on rank b if
/// no ranks were given. A value; O(ranks given) in memory.
class BlockOwners {
public:
    BlockOwners() = default;
    /// Assign `num_blocks` blocks to ranks. Throws invalid_argument for a rank that occurs twice,
    /// out_of_range unless 0 <= rank < nprocs; `name` is that of the argument, for messages.
    BlockOwners(std::int64_t nprocs, std::int64_t num_blocks, std::vector<std::int64_t> ranks,
                const char* name);

    std::int64_t nprocs() const { return nprocs_; }
    std::int64_t num_blocks() const { return num_blocks_; }
    /// Return the ranks as given; empty: rank = block number.
    const std::vector<std::int64_t>& ranks() const { return ranks_; }
    /// Return the rank of a block. Throws out_of_range. O(1).
    std::int64_t owner(std::int64_t block) const;
    /// Return the block of a rank, or -1 if it has none. Throws out_of_range for an invalid rank.
    /// O(1), or O(log P) if ranks were given.
    std::int64_t block_of(std::int64_t rank) const;
    bool operator==(const BlockOwners&) const = default;

private:
    std::int64_t nprocs_ = 0, num_blocks_ = 0;
    std::vector<std::int64_t> ranks_;
    std::vector<std::int64_t> blocks_by_rank_;  // sorted by rank, when ranks are given
};

/// Blocks numbered along a grid of processes, replica by replica: those of replica r from r times
/// the size of the grid.
class BlockGrid : public BlockOwners {
public:
    BlockGrid() = default;
    BlockGrid(BlockOwners owners, const Point& grid, bool column_major_grid, std::int64_t replicas)
        : BlockOwners(std::move(owners)),
          grid_(grid),
          column_major_grid_(column_major_grid),
          replicas_(replicas) {}

    const Point& grid() const { return grid_; }
    bool column_major_grid() const { return column_major_grid_; }
    std::int64_t replicas() const { return replicas_; }
    /// Return the grid position of a block. This and the next throw out_of_range for an invalid
    /// block or coordinate.
    Point grid_coordinates(std::int64_t block) const;
    /// Return the block of the first replica at a grid position.
    std::int64_t block_at(const Point& grid_coordinates) const;
    bool operator==(const BlockGrid&) const = default;

private:
    Point grid_;
    bool column_major_grid_ = false;
    std::int64_t replicas_ = 1;
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Flat layouts: contiguous ranges of the flattened array, distributed cyclically or in uneven
// ranges.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/axis_set.hpp"
#include "datamover/export.h"
#include "datamover/point.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// An array of `shape`, flattened with the last dimension fastest and dealt cyclically in blocks of
/// `block_elems` elements to some of the processes: the first block to owners[0], the next to
/// owners[1], and so on, the last block being shorter where the array ends. Block number b of the
/// layout is all that owners[b] holds, and its local array is one-dimensional: its pieces of the
/// flattened array, one behind the other. The layout of flat shards and of files of raw bytes; the
/// I/O mapping of the paper on network I/O, section 6.3. A value. O(owners given) in memory. Parts
/// of plans between ranges and other layouts take O(1) memory per pair of blocks, whatever the
/// lengths; making them takes no time that follows the number of ranges where rows and ranges
/// repeat together soon, else some 20 ns for each part of a row.
class FlatCyclic {
public:
    FlatCyclic() = default;
    /// No owners: all ranks, in order. Throws invalid_argument on a shape or a block that is not
    /// positive, more processes than 2^31 - 1, a rank twice; out_of_range for owners outside
    /// 0 .. nprocs-1, and for more elements than 63 bits can count.
    FlatCyclic(const Point& shape, std::int64_t block_elems, std::int64_t nprocs,
               std::vector<std::int64_t> owners = {});
    /// The same with blocks of so many bytes. Throws invalid_argument unless elements of
    /// `elem_bytes` (at least 1) divide them.
    static FlatCyclic of_bytes(const Point& shape, std::int64_t block_bytes,
                               std::int64_t elem_bytes, std::int64_t nprocs,
                               std::vector<std::int64_t> owners = {});

    int dims() const { return shape_.dims(); }
    const Point& shape() const { return shape_; }
    std::int64_t elems() const { return elems_; }  ///< of the whole array
    std::int64_t nprocs() const { return nprocs_; }
    /// Elements per range, at most those of the array.
    std::int64_t block_elems() const { return block_elems_; }
    /// As given; empty: all ranks.
    const std::vector<std::int64_t>& owners() const { return owners_; }

    std::int64_t num_blocks() const {
        return owners_.empty() ? nprocs_ : static_cast<std::int64_t>(owners_.size());
    }
    /// The number of blocks that hold anything: they come first.
    std::int64_t num_filled_blocks() const;
    /// Rank of a block. O(1). Throws out_of_range.
    std::int64_t owner(std::int64_t block) const;
    /// Block of a rank, or -1 for a rank without one. O(1), O(log P) with owners given. Throws
    /// out_of_range.
    std::int64_t block_of(std::int64_t rank) const;
    /// The flat indices of a block; their local positions are its own. Throws out_of_range.
    AxisSet flat_set(std::int64_t block) const;

    /// The block that holds a flat index, and where. O(1). Throws out_of_range.
    struct Place {
        std::int64_t block, position;
    };
    Place place_of(std::int64_t flat_index) const;

    bool operator==(const FlatCyclic& other) const;
    /// A number that equal layouts share, and different ones almost surely not; never negative.
    /// O(owners given).
    std::int64_t digest() const;

private:
    Point shape_;
    std::int64_t elems_ = 0, block_elems_ = 1, nprocs_ = 0;
    std::vector<std::int64_t> owners_;
    std::vector<std::int64_t> blocks_by_rank_;  // sorted by rank, when owners are given
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Flat layouts: contiguous ranges of the flattened array, distributed cyclically or in uneven
// ranges.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/advanced/axis_set.hpp"
#include "datamover/block_grid.hpp"
#include "datamover/export.h"
#include "datamover/point.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// An array of `shape`, flattened with the last dimension fastest and distributed cyclically in
/// ranges of `block_elems` elements over some of the processes: the first range to owners[0], the
/// next to owners[1], and so on; the last range is shorter if the array ends there. Block number b
/// of the layout is all that owners[b] holds. Its local array is one-dimensional: its ranges of the
/// flattened array, contiguously. Used for flat shards and files of raw bytes. A value. O(owners
/// given) in memory.
///
/// Parts of plans between ranges and other layouts take O(1) memory per pair of blocks, whatever
/// the lengths. The time to make them does not depend on the number of ranges if rows and ranges
/// soon repeat together; otherwise it is about 20 ns for each part of a row. Source: the I/O
/// mapping of the paper on network I/O, section 6.3.
class FlatCyclic : public BlockOwners {
public:
    FlatCyclic() = default;
    /// Make a layout of an array of `shape`. No owners: all ranks, in order. Throws
    /// invalid_argument if an extent is negative, a block is not positive, there are more than 2^31
    /// - 1 processes, or a rank is repeated; out_of_range for owners outside 0 .. nprocs-1, and for
    /// more elements than 63 bits can count.
    FlatCyclic(const Point& shape, std::int64_t block_elems, std::int64_t nprocs,
               std::vector<std::int64_t> owners = {});
    /// Make such a layout with ranges of `block_bytes` bytes. Throws invalid_argument unless this
    /// is a multiple of `elem_bytes` (at least 1).
    static FlatCyclic of_bytes(const Point& shape, std::int64_t block_bytes,
                               std::int64_t elem_bytes, std::int64_t nprocs,
                               std::vector<std::int64_t> owners = {});

    int dims() const { return shape_.dims(); }
    const Point& shape() const { return shape_; }
    std::int64_t elems() const { return elems_; }  ///< of the whole array
    /// Return the elements per range, at most those of the array.
    std::int64_t block_elems() const { return block_elems_; }
    /// Return the owners as given; empty: all ranks.
    const std::vector<std::int64_t>& owners() const { return ranks(); }

    /// Return the number of blocks that hold any elements; these come first.
    std::int64_t num_filled_blocks() const;
    /// Return the flat indices of a block; their local positions are those in the set. Throws
    /// out_of_range.
    AxisSet flat_set(std::int64_t block) const;

    /// Return the block that holds a flat index, and the position in it. Throws out_of_range. O(1).
    struct Place {
        std::int64_t block, position;
    };
    Place place_of(std::int64_t flat_index) const;

    bool operator==(const FlatCyclic&) const = default;
    /// Return a hash that is equal for equal layouts and almost certainly differs for different
    /// ones; never negative. O(owners given).
    std::int64_t digest() const;

private:
    Point shape_;
    std::int64_t elems_ = 0, block_elems_ = 1;
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Index lists: each process lists the flat indices that it holds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "datamover/export.h"
#include "datamover/region.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// A list of flat (row-major) indices into an array of `shape` for every rank. The local array of a
/// rank is one-dimensional, in the order of its list. Block number = rank. An index may be in no
/// list (no process holds it), or several times in one list or in several: these are copies, of
/// which the first of the lowest rank sends, and all receive. A cheap value.
class IndexList {
public:
    IndexList() = default;
    /// Make lists of all ranks. `offsets` has nprocs + 1 entries; rank r holds indices[offsets[r]
    /// .. offsets[r+1]). Throws mismatch (offsets), out_of_range (an index outside the shape).
    /// O(n log n).
    IndexList(const Point& shape, std::span<const std::int64_t> offsets,
              std::span<const std::int64_t> indices);

    /// Check the indices of a rank's list. Throws out_of_range if one is not in an array of
    /// `shape`.
    static void check_indices(const Point& shape, std::int64_t rank,
                              std::span<const std::int64_t> indices);

    /// One process's part of lists that no process holds whole; index_lists.hpp makes them.
    struct Part;
    /// Make lists of which this process holds its own, and the holders of some indices. Throws as
    /// above.
    IndexList(const Point& shape, Part part);

    int dims() const { return shape_.dims(); }
    const Point& shape() const { return shape_; }
    std::int64_t nprocs() const;
    std::int64_t num_blocks() const { return nprocs(); }
    /// Return the list of a rank. Throws unsupported for another process's list if each process
    /// holds only its own.
    std::span<const std::int64_t> indices_of(std::int64_t rank) const;
    /// Return the length of a list. O(1).
    std::int64_t count_of(std::int64_t rank) const;
    /// Return whether this process holds the lists of all ranks, and so the holders of every index.
    bool knows_all() const;

    /// Return the holders of an index as (rank, position in its list), ascending. Throws
    /// out_of_range for an index outside the shape, unsupported if this process does not have the
    /// holders of the index. O(1) where indices lie evenly, else O(log n).
    struct Holder {
        std::int64_t index, rank, position;
    };
    std::span<const Holder> holders(std::int64_t flat_index) const;
    /// Return the holders of the indices from `first` to `end` - 1, by ascending index.
    std::span<const Holder> holders_between(std::int64_t first, std::int64_t end) const;
    bool operator==(const IndexList& other) const;
    /// Return a hash that is equal for equal lists and almost certainly differs for different ones;
    /// never negative. O(1).
    std::int64_t digest() const;

private:
    struct Table;
    Point shape_;
    std::shared_ptr<const Table> table_;
};

struct IndexList::Part {
    std::int64_t rank = 0;             ///< whose list this is
    std::vector<std::int64_t> own;     ///< that list
    std::vector<std::int64_t> counts;  ///< the length of every rank's list
    std::vector<Holder>
        holders;  ///< all holders of the indices that this process has, in any order
    std::vector<std::int64_t> unheld;  ///< indices that no process holds, ascending
    std::int64_t digest = 0;           ///< the same on all processes
};

}  // namespace datamover

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

/// For every rank a list of flat (row-major) indices into an array of `shape`; the local array of a
/// rank is one-dimensional, in the order of its list. Block number = rank. Indices may be missing
/// (nobody holds them) or stand in several lists (copies; the lowest rank sends). A cheap value.
class IndexList {
public:
    IndexList() = default;
    /// `offsets` has nprocs + 1 entries; rank r holds indices[offsets[r] .. offsets[r+1]).
    /// Throws mismatch (offsets), out_of_range (an index outside the shape), invalid_argument (one
    /// index twice in one list). O(n log n).
    IndexList(const Point& shape, std::span<const std::int64_t> offsets,
              std::span<const std::int64_t> indices);

    /// Throws out_of_range where an index of a rank's list is not in an array of `shape`.
    static void check_indices(const Point& shape, std::int64_t rank,
                              std::span<const std::int64_t> indices);

    /// What one process knows of lists that no process holds whole: see index_lists.hpp, which
    /// makes them.
    struct Part;
    /// Lists of which this process knows its own, and the holders of some indices. Throws as above.
    IndexList(const Point& shape, Part part);

    int dims() const { return shape_.dims(); }
    const Point& shape() const { return shape_; }
    std::int64_t nprocs() const;
    std::int64_t num_blocks() const { return nprocs(); }
    /// Throws unsupported for the list of another process where each knows only its own.
    std::span<const std::int64_t> indices_of(std::int64_t rank) const;
    /// Length of a list. O(1).
    std::int64_t count_of(std::int64_t rank) const;
    /// Whether the lists of all ranks are known here, and so the holders of every index.
    bool knows_all() const;

    /// The holders of an index as (rank, position in its list), ascending. O(log n). Throws
    /// out_of_range for an index outside the shape, unsupported for one of which this process does
    /// not know who holds it.
    struct Holder {
        std::int64_t index, rank, position;
    };
    std::span<const Holder> holders(std::int64_t flat_index) const;
    /// Those of the indices from `first` to `end` - 1, by ascending index.
    std::span<const Holder> holders_between(std::int64_t first, std::int64_t end) const;
    bool operator==(const IndexList& other) const;
    /// A number that equal lists share, and different ones almost surely not; never negative. O(1).
    std::int64_t digest() const;

private:
    struct Table;
    void sort_holders(Table& table) const;
    Point shape_;
    std::shared_ptr<const Table> table_;
};

struct IndexList::Part {
    std::int64_t rank = 0;             ///< whose list is known
    std::vector<std::int64_t> own;     ///< that list
    std::vector<std::int64_t> counts;  ///< the length of every rank's list
    std::vector<Holder> holders;       ///< all holders of the indices that are known, in any order
    std::vector<std::int64_t> unheld;  ///< indices that nobody holds, ascending
    std::int64_t digest = 0;           ///< the same on all processes
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Who owns which element when each process simply lists the indices that it holds?
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "datamover/region.hpp"

namespace datamover {

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

    int dims() const { return shape_.dims(); }
    const Point& shape() const { return shape_; }
    std::int64_t nprocs() const;
    std::int64_t num_blocks() const { return nprocs(); }
    std::span<const std::int64_t> indices_of(std::int64_t rank) const;

    /// The holders of an index as (rank, position in its list), ascending. O(log n). Throws
    /// out_of_range for an index outside the shape.
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
    Point shape_;
    std::shared_ptr<const Table> table_;
};

}  // namespace datamover

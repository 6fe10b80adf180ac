// SPDX-License-Identifier: BSD-3-Clause
// Search tree over boxes: which of very many meet a given box.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "datamover/region.hpp"

namespace datamover::layout {

/// A static bounding-volume tree over a table of boxes: built once by halving the boxes at the
/// median of their centres along the widest dimension, kept in flat arrays without pointers. Boxes
/// may overlap and be of any sizes. Reading it from several threads at once is safe.
class BoxIndex {
public:
    /// `lo` and `hi` are row-major (n, dims) tables that must outlive the index and stay where they
    /// are. A box with lo = hi in dimension 0 is empty and never found. O(n log n).
    BoxIndex(int dims, std::span<const std::int64_t> lo, std::span<const std::int64_t> hi);

    /// Appends the row numbers of the boxes that intersect `box` to `found`, ascending. O(log n +
    /// answer) for boxes that overlap little.
    void find(const Region& box, std::vector<std::int64_t>& found) const;
    /// Whether any two boxes intersect. O(n) for boxes that tile a space.
    bool any_intersect() const;

private:
    static constexpr std::int64_t leaf_boxes = 8;

    using Key = std::pair<std::int64_t, std::int64_t>;  // centre, row
    // Rows rows_[begin, end) under node `number`; its children are 2 * number + 1 and + 2.
    struct Range {
        std::int64_t number, begin, end;
        std::int64_t middle() const { return begin + (end - begin) / 2; }
        Range lower_half() const { return {2 * number + 1, begin, middle()}; }
        Range upper_half() const { return {2 * number + 2, middle(), end}; }
        bool is_leaf() const { return end - begin <= leaf_boxes; }
    };

    void build(const Range& range, std::vector<Key>& keys);
    void halve(const Range& range, std::vector<Key>& keys);
    bool meet(const std::int64_t* a, const std::int64_t* b) const;
    bool any_intersect(const Range& a, const Range& b) const;
    void add_found(const Range& range, const std::int64_t* box,
                   std::vector<std::int64_t>& found) const;

    int dims_ = 0;
    std::span<const std::int64_t> lo_, hi_;
    std::vector<std::int64_t> rows_;    // not empty boxes, in the order of the leaves
    std::vector<std::int64_t> bounds_;  // per node: lo[dims], hi[dims]
    std::vector<std::int64_t> boxes_;   // the same of every box, in the order of rows_
};

}  // namespace datamover::layout

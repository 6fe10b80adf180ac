// SPDX-License-Identifier: BSD-3-Clause
// Search tree over boxes: which of very many meet a given box.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datamover/region.hpp"

namespace datamover::layout {

/// A static bounding-volume tree over a table of boxes: built once by halving the boxes at the
/// median of their centres along the widest dimension, kept in flat arrays without pointers. Boxes
/// may overlap and be of any sizes. Reading it from several threads at once is safe.
class BoxIndex {
public:
    BoxIndex() = default;
    /// `lo` and `hi` are row-major (n, dims) tables that must outlive the index and stay where they
    /// are. A box with lo = hi in dimension 0 is empty and never found. O(n log n).
    BoxIndex(int dims, std::span<const std::int64_t> lo, std::span<const std::int64_t> hi);

    /// Row numbers of the boxes that intersect `box`, ascending. O(log n + answer) for boxes that
    /// overlap little.
    std::vector<std::int64_t> find(const Region& box) const;
    /// Appends them to `found`.
    void find(const Region& box, std::vector<std::int64_t>& found) const;
    /// Whether any two boxes intersect. O(n) for boxes that tile a space.
    bool any_intersect() const;

private:
    static constexpr std::int64_t leaf_boxes = 8;

    struct Key {
        std::int64_t centre, row;
    };
    // Rows rows_[begin, end) under node `number`; its children are 2 * number + 1 and + 2.
    struct Range {
        std::int64_t number, begin, end;
        std::int64_t middle() const { return begin + (end - begin) / 2; }
        Range lower_half() const { return {2 * number + 1, begin, middle()}; }
        Range upper_half() const { return {2 * number + 2, middle(), end}; }
    };

    std::int64_t centre(std::int64_t row, int d) const;
    int widest_dim(const Range& range) const;
    void build(const Range& range, std::vector<Key>& keys);
    void bound_leaf(const Range& range);
    void bound_inner(const Range& range);
    void halve(const Range& range, std::vector<Key>& keys);
    std::int64_t* node_lo(std::int64_t number);
    std::int64_t* node_hi(std::int64_t number);
    static bool is_leaf(const Range& range) { return range.end - range.begin <= leaf_boxes; }
    bool any_intersect(const Range& a, const Range& b) const;
    void add_found(Range range, const Region& box, std::vector<std::int64_t>& found) const;

    int dims_ = 0;
    std::span<const std::int64_t> lo_, hi_;
    std::vector<std::int64_t> rows_;    // not empty boxes, in the order of the leaves
    std::vector<std::int64_t> bounds_;  // per node: lo[dims], hi[dims]
    std::vector<std::int64_t> boxes_;   // the same of every box, in the order of rows_
};

}  // namespace datamover::layout

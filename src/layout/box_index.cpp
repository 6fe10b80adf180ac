// SPDX-License-Identifier: BSD-3-Clause
// Search tree over boxes.

#include "box_index.hpp"

#include <algorithm>
#include <array>

namespace datamover::layout {
namespace {

bool intersects(const std::int64_t* lo, const std::int64_t* hi, const Region& box) {
    for (int d = 0; d < box.dims(); ++d) {
        if (lo[d] >= box.hi()[d] || box.lo()[d] >= hi[d]) return false;
    }
    return true;
}

bool meet(const std::int64_t* lo_a, const std::int64_t* hi_a, const std::int64_t* lo_b,
          const std::int64_t* hi_b, int dims) {
    for (int d = 0; d < dims; ++d)
        if (lo_a[d] >= hi_b[d] || lo_b[d] >= hi_a[d]) return false;
    return true;
}

std::int64_t num_nodes(std::int64_t boxes, std::int64_t leaf_boxes) {
    std::int64_t level_nodes = 1, largest_range = boxes;
    while (largest_range > leaf_boxes) {
        largest_range = (largest_range + 1) / 2;
        level_nodes *= 2;
    }
    return 2 * level_nodes - 1;
}

}  // namespace

BoxIndex::BoxIndex(int dims, std::span<const std::int64_t> lo, std::span<const std::int64_t> hi)
    : dims_(dims), lo_(lo), hi_(hi) {
    const auto boxes = static_cast<std::int64_t>(lo.size()) / std::max(dims, 1);
    rows_.reserve(static_cast<std::size_t>(boxes));
    for (std::int64_t row = 0; row < boxes; ++row) {
        const auto first = static_cast<std::size_t>(row * dims);
        if (lo[first] < hi[first]) rows_.push_back(row);
    }
    if (rows_.empty()) return;
    const auto filled = static_cast<std::int64_t>(rows_.size());
    bounds_.resize(static_cast<std::size_t>(num_nodes(filled, leaf_boxes) * 2 * dims));
    std::vector<Key> keys(rows_.size());
    build({0, 0, filled}, keys);
    boxes_.reserve(rows_.size() * 2 * static_cast<std::size_t>(dims));
    for (const std::int64_t row : rows_) {
        const auto first = static_cast<std::ptrdiff_t>(row * dims);
        boxes_.insert(boxes_.end(), lo.begin() + first, lo.begin() + first + dims);
        boxes_.insert(boxes_.end(), hi.begin() + first, hi.begin() + first + dims);
    }
}

std::int64_t* BoxIndex::node_lo(std::int64_t number) {
    return &bounds_[number * 2 * dims_];
}
std::int64_t* BoxIndex::node_hi(std::int64_t number) {
    return node_lo(number) + dims_;
}

std::int64_t BoxIndex::centre(std::int64_t row, int d) const {
    const auto at = static_cast<std::size_t>(row * dims_ + d);
    return lo_[at] + (hi_[at] - lo_[at]) / 2;
}

int BoxIndex::widest_dim(const Range& range) const {
    std::array<std::int64_t, max_dims> least{}, most{};
    for (int d = 0; d < dims_; ++d) least[d] = most[d] = centre(rows_[range.begin], d);
    for (std::int64_t i = range.begin + 1; i < range.end; ++i) {
        for (int d = 0; d < dims_; ++d) {
            const std::int64_t c = centre(rows_[i], d);
            least[d] = std::min(least[d], c);
            most[d] = std::max(most[d], c);
        }
    }
    int widest = 0;
    std::uint64_t widest_spread = 0;
    for (int d = 0; d < dims_; ++d) {
        // Unsigned, since centres may lie further apart than a signed difference can say.
        const std::uint64_t spread =
            static_cast<std::uint64_t>(most[d]) - static_cast<std::uint64_t>(least[d]);
        if (spread > widest_spread) {
            widest = d;
            widest_spread = spread;
        }
    }
    return widest;
}

void BoxIndex::halve(const Range& range, std::vector<Key>& keys) {
    const int d = widest_dim(range);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
        keys[i] = {centre(rows_[i], d), rows_[i]};
    }
    std::nth_element(keys.begin() + range.begin, keys.begin() + range.middle(),
                     keys.begin() + range.end, [](const Key& a, const Key& b) {
                         return a.centre != b.centre ? a.centre < b.centre : a.row < b.row;
                     });
    for (std::int64_t i = range.begin; i < range.end; ++i) rows_[i] = keys[i].row;
}

void BoxIndex::bound_leaf(const Range& range) {
    std::int64_t* lo = node_lo(range.number);
    std::int64_t* hi = node_hi(range.number);
    for (int d = 0; d < dims_; ++d) {
        lo[d] = lo_[rows_[range.begin] * dims_ + d];
        hi[d] = hi_[rows_[range.begin] * dims_ + d];
        for (std::int64_t i = range.begin + 1; i < range.end; ++i) {
            lo[d] = std::min(lo[d], lo_[rows_[i] * dims_ + d]);
            hi[d] = std::max(hi[d], hi_[rows_[i] * dims_ + d]);
        }
    }
}

void BoxIndex::bound_inner(const Range& range) {
    const std::int64_t a = range.lower_half().number, b = range.upper_half().number;
    for (int d = 0; d < dims_; ++d) {
        node_lo(range.number)[d] = std::min(node_lo(a)[d], node_lo(b)[d]);
        node_hi(range.number)[d] = std::max(node_hi(a)[d], node_hi(b)[d]);
    }
}

void BoxIndex::build(const Range& range, std::vector<Key>& keys) {
    if (is_leaf(range)) {
        bound_leaf(range);
        return;
    }
    halve(range, keys);
    build(range.lower_half(), keys);
    build(range.upper_half(), keys);
    bound_inner(range);
}

void BoxIndex::add_found(Range range, const Region& box, std::vector<std::int64_t>& found) const {
    const std::int64_t* lo = &bounds_[range.number * 2 * dims_];
    if (!intersects(lo, lo + dims_, box)) return;
    if (!is_leaf(range)) {
        add_found(range.lower_half(), box, found);
        add_found(range.upper_half(), box, found);
        return;
    }
    for (std::int64_t i = range.begin; i < range.end; ++i) {
        const std::int64_t* own = &boxes_[i * 2 * dims_];
        if (intersects(own, own + dims_, box)) found.push_back(rows_[i]);
    }
}

std::vector<std::int64_t> BoxIndex::find(const Region& box) const {
    std::vector<std::int64_t> found;
    find(box, found);
    return found;
}

void BoxIndex::find(const Region& box, std::vector<std::int64_t>& found) const {
    if (rows_.empty() || box.empty()) return;
    const auto first = static_cast<std::ptrdiff_t>(found.size());
    add_found({0, 0, static_cast<std::int64_t>(rows_.size())}, box, found);
    std::sort(found.begin() + first, found.end());
}

bool BoxIndex::any_intersect() const {
    if (rows_.empty()) return false;
    const Range all{0, 0, static_cast<std::int64_t>(rows_.size())};
    return any_intersect(all, all);
}

/// Whether a box of `a` intersects another one of `b`: the same node, or two without a common box.
bool BoxIndex::any_intersect(const Range& a, const Range& b) const {
    const bool same = a.number == b.number;
    const std::int64_t* lo = &bounds_[a.number * 2 * dims_];
    const std::int64_t* other = &bounds_[b.number * 2 * dims_];
    if (!same && !meet(lo, lo + dims_, other, other + dims_, dims_)) return false;
    if (is_leaf(a) && is_leaf(b)) {
        for (std::int64_t i = a.begin; i < a.end; ++i)
            for (std::int64_t j = same ? i + 1 : b.begin; j < b.end; ++j) {
                const std::int64_t *p = &boxes_[i * 2 * dims_], *q = &boxes_[j * 2 * dims_];
                if (meet(p, p + dims_, q, q + dims_, dims_)) return true;
            }
        return false;
    }
    if (same)
        return any_intersect(a.lower_half(), a.lower_half()) ||
               any_intersect(a.upper_half(), a.upper_half()) ||
               any_intersect(a.lower_half(), a.upper_half());
    const bool halve_a = !is_leaf(a) && (is_leaf(b) || a.end - a.begin >= b.end - b.begin);
    return halve_a ? any_intersect(a.lower_half(), b) || any_intersect(a.upper_half(), b)
                   : any_intersect(a, b.lower_half()) || any_intersect(a, b.upper_half());
}

}  // namespace datamover::layout

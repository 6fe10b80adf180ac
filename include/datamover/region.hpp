// SPDX-License-Identifier: BSD-3-Clause
// Regions: boxes of index space and their calculus.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "datamover/export.h"
#include "datamover/point.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// A half-open box of Z^d: all points p with lo <= p < hi. Every box without points equals the one
/// canonical empty region of its dimension (lo = hi = 0); a region without dimensions is empty. A
/// value. By default, every function is local and O(dims). Operations on two operands throw
/// mismatch if their dimensions differ, and out_of_range if a result does not fit in 64 bits.
/// Source: KeLP's Region and its calculus.
class Region {
public:
    Region() = default;
    /// Make [lo, hi); it is empty if hi <= lo in any dimension. Throws invalid_argument if the
    /// dimensions differ, out_of_range if an extent does not fit in 63 bits.
    Region(const Point& lo, const Point& hi);
    /// Make [0, shape). Throws invalid_argument for a negative extent.
    static Region from_shape(const Point& shape);
    /// Make the empty region of 0 to 8 dimensions. Throws invalid_argument for other numbers.
    static Region empty_region(int dims);

    int dims() const { return lo_.dims(); }
    const Point& lo() const { return lo_; }
    const Point& hi() const { return hi_; }
    std::int64_t extent(int d) const { return hi_[d] - lo_[d]; }
    Point shape() const { return hi_ - lo_; }
    /// Return the number of points. Throws out_of_range if it does not fit in 63 bits.
    std::int64_t size() const;
    bool empty() const;

    bool contains(const Point& point) const;
    bool contains(const Region& other) const;  ///< the empty region is contained in every region
    bool intersects(const Region& other) const;

    /// Grow the region on both sides of each dimension; negative widths shrink it. The
    /// empty region stays empty, here and in `shifted`. By default (a point without dimensions),
    /// `upper_width` is `lower_width`.
    Region grown(const Point& lower_width, const Point& upper_width = {}) const;
    Region shifted(const Point& offset) const;
    Region intersected(const Region& other) const;
    /// Return the smallest region that contains both; the empty region adds nothing.
    Region bounding(const Region& other) const;
    /// Return the points of this region that are not in `other`, as at most 2d disjoint regions.
    std::vector<Region> subtracted(const Region& other) const;
    /// Return the coarse cells that this region touches; cell c holds the fine points c * ratio to
    /// (c + 1) * ratio - 1 in each dimension. Throws invalid_argument if a ratio is below 1.
    Region coarsened(const Point& ratio) const;
    /// Return the fine points of these coarse cells. Throws invalid_argument if a ratio is below 1.
    Region refined(const Point& ratio) const;

    /// Format the region as slices are written, such as "[0:4, 2:8)".
    std::string to_string() const;

    /// Call visit(point) for every point, last dimension fastest.
    template <class Visit>
    void for_each(Visit&& visit) const {
        if (empty()) return;
        Point p = lo_;
        for (;;) {
            visit(static_cast<const Point&>(p));
            int d = dims() - 1;
            for (; d >= 0; --d) {
                if (++p[d] < hi_[d]) break;
                p[d] = lo_[d];
            }
            if (d < 0) return;
        }
    }

private:
    Point lo_;
    Point hi_;
};

inline bool operator==(const Region& a, const Region& b) {
    return a.lo() == b.lo() && a.hi() == b.hi();
}

/// Return the points of `region` that are in none of `others`, as disjoint regions. Cost:
/// proportional to the number of others and, for those that intersect `region`, to the parts that
/// they leave.
std::vector<Region> subtract_all(const Region& region, const std::vector<Region>& others);

}  // namespace datamover

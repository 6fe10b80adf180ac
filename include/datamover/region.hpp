// SPDX-License-Identifier: BSD-3-Clause
// Regions: boxes of index space and their calculus.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "datamover/export.h"
#include "datamover/point.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// A box of Z^d, half-open: all points p with lo <= p < hi. Every box without points equals the one
/// canonical empty region of its dimension (lo = hi = 0); a region without dimensions is empty. A
/// value; every function is local and O(dims) unless it says otherwise. Operations on two operands
/// throw mismatch when their dimensions differ, and out_of_range when a result does not fit 64
/// bits. Source: KeLP's Region and its calculus.
class Region {
public:
    Region() = default;
    /// [lo, hi). hi <= lo anywhere: empty. Throws invalid_argument when the dimensions differ,
    /// out_of_range when an extent does not fit 63 bits.
    Region(const Point& lo, const Point& hi);
    /// [0, shape). Throws invalid_argument on a negative extent.
    static Region from_shape(const Point& shape);
    /// The empty region of 0 to 8 dimensions. Throws invalid_argument for other numbers.
    static Region empty_region(int dims);

    int dims() const { return lo_.dims(); }
    const Point& lo() const { return lo_; }
    const Point& hi() const { return hi_; }
    std::int64_t extent(int d) const { return hi_[d] - lo_[d]; }
    Point shape() const { return hi_ - lo_; }
    /// Number of points. Throws out_of_range when it does not fit 63 bits.
    std::int64_t size() const;
    bool empty() const;
    bool operator==(const Region&) const = default;

    bool contains(const Point& point) const;
    bool contains(const Region& other) const;  ///< the empty region lies in every region
    bool intersects(const Region& other) const;

    /// Grown by `width` on both sides of each dimension; negative widths shrink. The empty region
    /// stays empty, here and when shifted.
    Region grown(const Point& width) const;
    Region grown(const Point& lower_width, const Point& upper_width) const;
    Region shifted(const Point& offset) const;
    Region intersected(const Region& other) const;
    /// The smallest region that holds both; the empty region adds nothing.
    Region bounding(const Region& other) const;
    /// The points of this region that are not in `other`, as at most 2d disjoint regions.
    std::vector<Region> subtracted(const Region& other) const;
    /// The coarse cells that this region touches; cell c holds the fine points c * ratio to
    /// (c + 1) * ratio - 1 in each dimension. Throws invalid_argument when a ratio is below 1.
    Region coarsened(const Point& ratio) const;
    /// The fine points of these coarse cells. Throws invalid_argument when a ratio is below 1.
    Region refined(const Point& ratio) const;

    /// "[0:4, 2:8)" in the way slices are written.
    std::string to_string() const;

    /// Calls visit(point) for every point, last dimension fastest.
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

/// The points of `region` in none of `others`, as disjoint regions. The cost follows the number of
/// others and, for those that meet `region`, of the parts that they leave.
std::vector<Region> subtract_all(const Region& region, const std::vector<Region>& others);

}  // namespace datamover

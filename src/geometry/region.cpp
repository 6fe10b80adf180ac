// SPDX-License-Identifier: BSD-3-Clause
// Regions: grow, cut, join.

#include "datamover/region.hpp"

#include <algorithm>

#include "checked.hpp"
#include "make_error.hpp"

namespace datamover {
namespace {

void check_same_dims(const Region& a, int dims) {
    if (a.dims() != dims) {
        throw make_error(ErrorCode::mismatch, "region ", a, " of ", a.dims(),
                         " dimensions meets an operand of ", dims);
    }
}

void check_ratio(const Region& region, const Point& ratio) {
    check_same_dims(region, ratio.dims());
    for (int d = 0; d < ratio.dims(); ++d) {
        if (ratio[d] < 1) {
            throw make_error(ErrorCode::invalid_argument, "a refinement ratio of ", ratio,
                             "; every ratio must be at least 1");
        }
    }
}

}  // namespace

Region::Region(const Point& lo, const Point& hi) : lo_(lo), hi_(hi) {
    if (lo.dims() != hi.dims()) {
        throw make_error(ErrorCode::invalid_argument, "a region from ", lo, " to ", hi,
                         ": the corners differ in dimension");
    }
    bool has_points = true;
    for (int d = 0; d < lo.dims(); ++d) has_points = has_points && lo[d] < hi[d];
    if (!has_points) {
        lo_ = hi_ = Point::filled(lo.dims(), 0);
        return;
    }
    for (int d = 0; d < lo.dims(); ++d) {
        std::int64_t extent = 0;
        if (__builtin_sub_overflow(hi[d], lo[d], &extent))
            throw make_error(ErrorCode::out_of_range, "a region from ", lo, " to ", hi,
                             ": the extent of dimension ", d, " does not fit 63 bits");
    }
}

Region Region::from_shape(const Point& shape) {
    for (int d = 0; d < shape.dims(); ++d) {
        if (shape[d] < 0) {
            throw make_error(ErrorCode::invalid_argument, "a shape of ", shape,
                             "; no extent may be negative");
        }
    }
    return Region(Point::filled(shape.dims(), 0), shape);
}

Region Region::empty_region(int dims) {
    const Point origin = Point::filled(dims, 0);
    return Region(origin, origin);
}

std::int64_t Region::size() const {
    return empty() ? 0 : shape().product();
}

// The canonical form makes one dimension enough.
bool Region::empty() const {
    return dims() == 0 || lo_[0] == hi_[0];
}

bool Region::contains(const Point& point) const {
    check_same_dims(*this, point.dims());
    for (int d = 0; d < dims(); ++d) {
        if (point[d] < lo_[d] || point[d] >= hi_[d]) return false;
    }
    return dims() > 0;
}

bool Region::contains(const Region& other) const {
    check_same_dims(*this, other.dims());
    if (other.empty()) return true;
    for (int d = 0; d < dims(); ++d) {
        if (other.lo_[d] < lo_[d] || other.hi_[d] > hi_[d]) return false;
    }
    return true;
}

bool Region::intersects(const Region& other) const {
    check_same_dims(*this, other.dims());
    if (empty() || other.empty()) return false;
    for (int d = 0; d < dims(); ++d) {
        if (lo_[d] >= other.hi_[d] || other.lo_[d] >= hi_[d]) return false;
    }
    return true;
}

Region Region::grown(const Point& lower_width, const Point& upper_width) const {
    const Point& upper = upper_width.dims() > 0 ? upper_width : lower_width;
    check_same_dims(*this, lower_width.dims());
    check_same_dims(*this, upper.dims());
    return empty() ? *this : Region(lo_ - lower_width, hi_ + upper);
}

Region Region::shifted(const Point& offset) const {
    check_same_dims(*this, offset.dims());
    return empty() ? *this : Region(lo_ + offset, hi_ + offset);
}

Region Region::intersected(const Region& other) const {
    if (!intersects(other)) return empty_region(dims());
    Region result = *this;
    for (int d = 0; d < dims(); ++d) {
        result.lo_[d] = std::max(lo_[d], other.lo_[d]);
        result.hi_[d] = std::min(hi_[d], other.hi_[d]);
    }
    return result;
}

Region Region::bounding(const Region& other) const {
    check_same_dims(*this, other.dims());
    if (empty()) return other;
    if (other.empty()) return *this;
    Point lo = lo_, hi = hi_;
    for (int d = 0; d < dims(); ++d) {
        lo[d] = std::min(lo[d], other.lo_[d]);
        hi[d] = std::max(hi[d], other.hi_[d]);
    }
    return Region(lo, hi);
}

std::vector<Region> Region::subtracted(const Region& other) const {
    if (empty()) return {};
    const Region hole = intersected(other);
    if (hole.empty()) return {*this};
    // Slabs below and above the hole, one dimension after the other; what is left shrinks to it.
    std::vector<Region> parts;
    Region rest = *this;
    for (int d = 0; d < dims(); ++d) {
        if (rest.lo_[d] < hole.lo_[d]) {
            parts.push_back(rest);
            parts.back().hi_[d] = rest.lo_[d] = hole.lo_[d];
        }
        if (hole.hi_[d] < rest.hi_[d]) {
            parts.push_back(rest);
            parts.back().lo_[d] = rest.hi_[d] = hole.hi_[d];
        }
    }
    return parts;
}

Region Region::coarsened(const Point& ratio) const {
    check_ratio(*this, ratio);
    Region result = *this;
    for (int d = 0; d < dims(); ++d) {
        result.lo_[d] = geometry::divide_down(lo_[d], ratio[d]);
        result.hi_[d] = geometry::divide_up(hi_[d], ratio[d]);
    }
    return result;
}

Region Region::refined(const Point& ratio) const {
    check_ratio(*this, ratio);
    return Region(lo_ * ratio, hi_ * ratio);
}

std::string Region::to_string() const {
    std::string text = "[";
    for (int d = 0; d < dims(); ++d) {
        if (d > 0) text += ", ";
        text += concat(lo_[d], ":", hi_[d]);
    }
    return text + ")";
}

std::vector<Region> subtract_all(const Region& region, const std::vector<Region>& others) {
    std::vector<Region> parts;
    if (!region.empty()) parts.push_back(region);
    for (const Region& other : others) {
        if (!region.intersects(other)) continue;
        std::vector<Region> remaining;
        for (const Region& part : parts) {
            const std::vector<Region> pieces = part.subtracted(other);
            remaining.insert(remaining.end(), pieces.begin(), pieces.end());
        }
        parts = std::move(remaining);
        if (parts.empty()) break;
    }
    return parts;
}

}  // namespace datamover

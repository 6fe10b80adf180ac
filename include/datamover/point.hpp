// SPDX-License-Identifier: BSD-3-Clause
// Points of index space, which are also shapes of boxes.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// The largest number of dimensions that the library supports.
inline constexpr int max_dims = 8;

/// A point of Z^d with run-time d from 0 to 8: an index, a shape, a width or an offset. A value;
/// every function is local and O(d). Arithmetic throws mismatch if the dimensions differ and
/// out_of_range if a coordinate does not fit in 64 bits. Source: KeLP's Point.
class Point {
public:
    Point() = default;
    /// Make a point of `dims` coordinates, all `value`. Throws invalid_argument if dims is not in
    /// 0..8.
    static Point filled(int dims, std::int64_t value);
    /// Make a point of the given coordinates. Throws invalid_argument for more than 8.
    Point(std::initializer_list<std::int64_t> coordinates);
    explicit Point(std::span<const std::int64_t> coordinates);

    int dims() const { return dims_; }
    /// Return coordinate d; d is not checked.
    std::int64_t operator[](int d) const { return coordinates_[static_cast<std::size_t>(d)]; }
    std::int64_t& operator[](int d) { return coordinates_[static_cast<std::size_t>(d)]; }

    /// Return the product of the coordinates: the number of points of a shape. 1 for d = 0. Throws
    /// out_of_range if it does not fit in 63 bits.
    std::int64_t product() const;

    Point operator+(const Point& other) const;
    Point operator-(const Point& other) const;
    Point operator*(const Point& other) const;  ///< coordinate by coordinate
    Point operator-() const;
    bool operator==(const Point& other) const;

    /// Format the point as "(3, 4, 5)".
    std::string to_string() const;
    std::vector<std::int64_t> to_vector() const;

private:
    std::array<std::int64_t, max_dims> coordinates_{};
    int dims_ = 0;
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Points: construction, arithmetic, text.

#include "datamover/point.hpp"

#include <algorithm>

#include "checked.hpp"
#include "make_error.hpp"

namespace datamover {
namespace {

int checked_dims(std::int64_t dims) {
    if (dims < 0 || dims > max_dims) {
        throw make_error(ErrorCode::invalid_argument, "a point of ", dims, " dimensions; 0 to ",
                         max_dims, " are possible");
    }
    return static_cast<int>(dims);
}

template <class Combine>
Point combined(const Point& a, const Point& b, Combine combine) {
    if (a.dims() != b.dims()) {
        throw make_error(ErrorCode::mismatch, "points ", a, " and ", b,
                         " differ in dimension and cannot be combined");
    }
    Point result = a;
    for (int d = 0; d < a.dims(); ++d) result[d] = combine(a[d], b[d]);
    return result;
}

}  // namespace

Point Point::filled(int dims, std::int64_t value) {
    Point result;
    result.dims_ = checked_dims(dims);
    std::fill_n(result.coordinates_.begin(), dims, value);
    return result;
}

Point::Point(std::initializer_list<std::int64_t> coordinates)
    : Point(std::span<const std::int64_t>(coordinates.begin(), coordinates.size())) {}

Point::Point(std::span<const std::int64_t> coordinates)
    : dims_(checked_dims(static_cast<std::int64_t>(coordinates.size()))) {
    std::copy(coordinates.begin(), coordinates.end(), coordinates_.begin());
}

std::int64_t Point::product() const {
    // A zero decides, whatever the other factors would overflow to.
    for (int d = 0; d < dims_; ++d) {
        if ((*this)[d] == 0) return 0;
    }
    std::int64_t result = 1;
    for (int d = 0; d < dims_; ++d) {
        if (__builtin_mul_overflow(result, (*this)[d], &result)) {
            throw make_error(ErrorCode::out_of_range, "the product of ", to_string(),
                             " does not fit 63 bits");
        }
    }
    return result;
}

Point Point::operator+(const Point& other) const {
    return combined(*this, other, geometry::add);
}

Point Point::operator-(const Point& other) const {
    return combined(*this, other, geometry::subtract);
}

Point Point::operator*(const Point& other) const {
    return combined(*this, other, geometry::multiply);
}

Point Point::operator-() const {
    return filled(dims_, 0) - *this;
}

bool Point::operator==(const Point& other) const {
    return dims_ == other.dims_ && std::equal(coordinates_.begin(), coordinates_.begin() + dims_,
                                              other.coordinates_.begin());
}

std::string Point::to_string() const {
    std::string text = "(";
    for (int d = 0; d < dims_; ++d) {
        if (d > 0) text += ", ";
        text += std::to_string((*this)[d]);
    }
    return text + ")";
}

std::vector<std::int64_t> Point::to_vector() const {
    return {coordinates_.begin(), coordinates_.begin() + dims_};
}

}  // namespace datamover

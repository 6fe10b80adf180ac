// SPDX-License-Identifier: BSD-3-Clause
// Numbered values: a stand-in for a solver that makes every wrong ghost visible.
//
// Each value of a grid has a number. The arrays start as their numbers and grow by the number of
// the iteration, because all computed terms vanish when the ghosts are right: differences of second
// order are 0, and in a sweep a point adds the errors of the points before it. A ghost that is
// wrong, late or from another point makes all later values wrong. All values are whole numbers far
// below 2^53, so sums are exact.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace apps {

/// Along x, y and z.
using Index = std::array<std::int64_t, 3>;

/// Points of a box of the grid, from lo to hi - 1, at local indices.
struct Box {
    Index lo{}, hi{};
};

/// A process's box of an array with `count` values for each point, in memory with ghosts. Local
/// index 0 is its lowest point.
struct Values {
    double* origin = nullptr;  ///< the first value of the lowest point
    Index strides{};           ///< in elements, from point to point
    std::int64_t value_stride = 1, count = 1;
    Index lo{}, extent{};  ///< the box, at global indices
    Index ghosts{};        ///< layers on both sides
    Index grid{};          ///< points of the whole grid

    double* at(const Index& point) const {
        return origin + point[0] * strides[0] + point[1] * strides[1] + point[2] * strides[2];
    }
    /// Of the first value of a point; the others follow.
    std::int64_t number(const Index& point) const {
        return ((point[2] + lo[2]) * grid[1] * grid[0] + (point[1] + lo[1]) * grid[0] + point[0] +
                lo[0]) *
               count;
    }
    bool in_grid(std::size_t d, std::int64_t index) const {
        return index + lo[d] >= 0 && index + lo[d] < grid[d];
    }
    Box all() const { return {{}, extent}; }
};

template <class Visit>
void for_each_point(const Box& box, Visit&& visit) {
    for (std::int64_t z = box.lo[2]; z < box.hi[2]; ++z)
        for (std::int64_t y = box.lo[1]; y < box.hi[1]; ++y)
            for (std::int64_t x = box.lo[0]; x < box.hi[0]; ++x) visit(Index{x, y, z});
}

template <class Visit>
void for_each_point_backwards(const Box& box, Visit&& visit) {
    for (std::int64_t z = box.hi[2] - 1; z >= box.lo[2]; --z)
        for (std::int64_t y = box.hi[1] - 1; y >= box.lo[1]; --y)
            for (std::int64_t x = box.hi[0] - 1; x >= box.lo[0]; --x) visit(Index{x, y, z});
}

/// What values should be: a constant and a multiple of their numbers.
struct Form {
    double constant = 0, factor = 0;

    double operator()(std::int64_t number) const {
        return constant + factor * static_cast<double>(number);
    }
};

/// Values become their numbers; ghosts become what no value is.
inline void number(const Values& v) {
    Box everything = v.all();
    for (std::size_t d = 0; d < 3; ++d) {
        everything.lo[d] -= v.ghosts[d];
        everything.hi[d] += v.ghosts[d];
    }
    for_each_point(everything, [&](const Index& point) {
        for (std::int64_t m = 0; m < v.count; ++m)
            v.at(point)[m * v.value_stride] = std::numeric_limits<double>::quiet_NaN();
    });
    for_each_point(v.all(), [&](const Index& point) {
        for (std::int64_t m = 0; m < v.count; ++m)
            v.at(point)[m * v.value_stride] = static_cast<double>(v.number(point) + m);
    });
}

/// r = constant + differences of u of second order along each dimension, one and two points wide,
/// where the grid has two points on both sides.
inline void differences(const Values& r, const Values& u, double constant) {
    for_each_point(u.all(), [&](const Index& point) {
        double *const out = r.at(point), *const in = u.at(point);
        for (std::int64_t m = 0; m < u.count; ++m) out[m * r.value_stride] = constant;
        for (std::size_t d = 0; d < 3; ++d) {
            if (!u.in_grid(d, point[d] - 2) || !u.in_grid(d, point[d] + 2)) continue;
            const std::int64_t step = u.strides[d];
            for (std::int64_t m = 0; m < u.count; ++m) {
                const double* const p = in + m * u.value_stride;
                out[m * r.value_stride] += p[-2 * step] + p[-step] + p[step] + p[2 * step] - 4 * *p;
            }
        }
    });
}

/// A point's values grow by how much those `step` points from it, ghosts at most, are wrong.
inline void correct(const Values& v, const Index& point, std::size_t d, std::int64_t step,
                    const Form& right) {
    if (!v.in_grid(d, point[d] + step)) return;
    Index there = point;
    there[d] += step;
    double *const value = v.at(point), *const beside = v.at(there);
    const std::int64_t first = v.number(there);
    for (std::int64_t m = 0; m < v.count; ++m)
        value[m * v.value_stride] += beside[m * v.value_stride] - right(first + m);
}
/// A point's values, which were of one form, become of another.
inline void advance(const Values& v, const Index& point, const Form& before, const Form& after) {
    double* const value = v.at(point);
    const std::int64_t first = v.number(point);
    for (std::int64_t m = 0; m < v.count; ++m)
        value[m * v.value_stride] += after(first + m) - before(first + m);
}

/// u += the constant of r, which has this form.
inline void add(const Values& u, const Values& r, const Form& form) {
    for_each_point(u.all(), [&](const Index& point) {
        double *const sum = u.at(point), *const added = r.at(point);
        const std::int64_t first = r.number(point);
        for (std::int64_t m = 0; m < u.count; ++m)
            sum[m * u.value_stride] += added[m * r.value_stride] - form(first + m) + form.constant;
    });
}

/// How many values are their numbers and `more`.
inline std::int64_t right_values(const Values& v, double more) {
    std::int64_t right = 0;
    for_each_point(v.all(), [&](const Index& point) {
        const std::int64_t first = v.number(point);
        for (std::int64_t m = 0; m < v.count; ++m)
            right += v.at(point)[m * v.value_stride] == static_cast<double>(first + m) + more;
    });
    return right;
}

/// Of 1 + 2 + … + iterations.
inline double sum_to(std::int64_t iterations) {
    return static_cast<double>(iterations * (iterations + 1) / 2);
}

}  // namespace apps

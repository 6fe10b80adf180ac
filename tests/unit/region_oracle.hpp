// SPDX-License-Identifier: BSD-3-Clause
// Oracle of regions: the points of a box, found without the region calculus under test. It includes
// random boxes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "datamover/error.hpp"
#include "datamover/region.hpp"

namespace datamover::region_oracle {

using Coordinates = std::vector<std::int64_t>;
using PointSet = std::set<Coordinates>;

/// Random numbers that are the same on every platform.
class Random {
public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}
    /// In [least, most].
    std::int64_t integer(std::int64_t least, std::int64_t most) {
        const auto choices = static_cast<std::uint64_t>(most - least) + 1;
        return least + static_cast<std::int64_t>(engine_() % choices);
    }
    bool chance(int percent) { return integer(1, 100) <= percent; }
    Point point(int dims, std::int64_t least, std::int64_t most) {
        Point result = Point::filled(dims, 0);
        for (int d = 0; d < dims; ++d) result[d] = integer(least, most);
        return result;
    }
    /// A box with corners in [least, most]; now and then an empty one.
    Region region(int dims, std::int64_t least, std::int64_t most) {
        Point lo = point(dims, least, most), hi = point(dims, least, most);
        for (int d = 0; d < dims; ++d) {
            if (lo[d] > hi[d] && !chance(3)) std::swap(lo[d], hi[d]);
        }
        return Region(lo, hi);
    }

private:
    std::mt19937_64 engine_;
};

/// Calls visit(coordinates) for every p with lo <= p < hi.
template <class Visit>
void for_each_between(const Coordinates& lo, const Coordinates& hi, Visit visit) {
    for (std::size_t d = 0; d < lo.size(); ++d) {
        if (lo[d] >= hi[d]) return;
    }
    Coordinates p = lo;
    while (p[0] < hi[0]) {
        visit(p);
        std::size_t d = p.size() - 1;
        while (++p[d] == hi[d] && d > 0) {
            p[d] = lo[d];
            --d;
        }
    }
}

inline bool lies_in(const Coordinates& p, const Region& region) {
    for (int d = 0; d < region.dims(); ++d) {
        const std::int64_t x = p[static_cast<std::size_t>(d)];
        if (x < region.lo()[d] || x >= region.hi()[d]) return false;
    }
    return region.dims() > 0;
}

inline PointSet points_of(const Region& region) {
    PointSet points;
    for_each_between(region.lo().to_vector(), region.hi().to_vector(),
                     [&](const Coordinates& p) { points.insert(p); });
    return points;
}

/// The points of several regions, which must be disjoint.
inline PointSet points_of_disjoint(const std::vector<Region>& regions) {
    PointSet points;
    for (const Region& region : regions) {
        for (const Coordinates& p : points_of(region)) {
            EXPECT_TRUE(points.insert(p).second)
                << Point(p).to_string() << " stands in two regions";
        }
    }
    return points;
}

template <class Call>
void expect_error(ErrorCode code, Call call) {
    try {
        call();
        ADD_FAILURE() << "no error; expected " << error_code_name(code);
    } catch (const Error& error) {
        EXPECT_EQ(error_code_name(error.code()), std::string(error_code_name(code)))
            << error.what();
    }
}

}  // namespace datamover::region_oracle

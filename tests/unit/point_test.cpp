// SPDX-License-Identifier: BSD-3-Clause
// Points: compute coordinate by coordinate, and reject dimensions that do not match.

#include "datamover/point.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "region_oracle.hpp"

namespace datamover {
namespace {

using region_oracle::expect_error;
using region_oracle::Random;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();

TEST(Point, ComputesCoordinateByCoordinate) {
    Random random(11);
    for (int run = 0; run < 200; ++run) {
        const int dims = static_cast<int>(random.integer(0, max_dims));
        const Point a = random.point(dims, -50, 50), b = random.point(dims, -50, 50);
        const Point sum = a + b, difference = a - b, product = a * b, negative = -a;
        std::int64_t count = 1;
        for (int d = 0; d < dims; ++d) {
            EXPECT_EQ(sum[d], a[d] + b[d]);
            EXPECT_EQ(difference[d], a[d] - b[d]);
            EXPECT_EQ(product[d], a[d] * b[d]);
            EXPECT_EQ(negative[d], 0 - a[d]);
            count *= a[d];
        }
        EXPECT_EQ(sum.dims(), dims);
        EXPECT_EQ(a.product(), count);
        EXPECT_EQ(a == b, a.to_vector() == b.to_vector());
        EXPECT_EQ(Point(a.to_vector()), a);
    }
}

TEST(Point, EqualsOnlyPointsOfItsDimension) {
    EXPECT_EQ((Point{3, 0}), (Point{3, 0}));
    EXPECT_NE((Point{3, 0}), (Point{3}));
    EXPECT_EQ(Point::filled(3, 7), (Point{7, 7, 7}));
}

TEST(Point, IsWrittenAsATuple) {
    EXPECT_EQ((Point{3, -4, 5}).to_string(), "(3, -4, 5)");
    EXPECT_EQ(Point().to_string(), "()");
}

TEST(Point, ProductRefusesOverflow) {
    EXPECT_EQ((Point{largest}).product(), largest);
    EXPECT_EQ((Point{largest, largest, 0}).product(), 0);
    EXPECT_EQ(Point().product(), 1);
    expect_error(ErrorCode::out_of_range, [] { (Point{largest, 2}).product(); });
    expect_error(ErrorCode::out_of_range, [] { Point::filled(8, 1 << 10).product(); });
}

TEST(Point, RefusesWhatDoesNotFit) {
    expect_error(ErrorCode::invalid_argument, [] { Point::filled(9, 0); });
    expect_error(ErrorCode::invalid_argument, [] { Point::filled(-1, 0); });
    expect_error(ErrorCode::invalid_argument, [] { Point{1, 2, 3, 4, 5, 6, 7, 8, 9}; });
    expect_error(ErrorCode::mismatch, [] { Point{1} + Point{1, 2}; });
    expect_error(ErrorCode::out_of_range, [] { Point{largest} + Point{1}; });
    expect_error(ErrorCode::out_of_range, [] { Point{smallest} - Point{1}; });
    expect_error(ErrorCode::out_of_range, [] { Point{largest} * Point{2}; });
    expect_error(ErrorCode::out_of_range, [] { -Point{smallest}; });
}

TEST(Error, NamesEveryCodeOnce) {
    std::set<std::string> names;
    for (int code = 1; code <= 11; ++code) {
        names.insert(error_code_name(static_cast<ErrorCode>(code)));
    }
    EXPECT_EQ(names.size(), 11u);
    EXPECT_EQ(names.count("unknown"), 0u);
    EXPECT_STREQ(error_code_name(static_cast<ErrorCode>(99)), "unknown");
}

}  // namespace
}  // namespace datamover

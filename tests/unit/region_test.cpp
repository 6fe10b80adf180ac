// SPDX-License-Identifier: BSD-3-Clause
// Regions: the calculus agrees with sets of points.

#include "datamover/region.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "region_oracle.hpp"

namespace datamover {
namespace {

using region_oracle::Coordinates;
using region_oracle::expect_error;
using region_oracle::lies_in;
using region_oracle::points_of;
using region_oracle::points_of_disjoint;
using region_oracle::PointSet;
using region_oracle::Random;

constexpr int num_cases = 300;
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();

// A dimension, and coordinates such that a box has some hundreds of points at most.
struct RegionCase {
    Random random;
    int dims;
    std::int64_t reach;
    explicit RegionCase(int seed)
        : random(static_cast<std::uint64_t>(seed) + 1000), dims(seed % 4 + 1) {
        reach = dims == 1 ? 20 : dims == 2 ? 6 : dims == 3 ? 3 : 2;
    }
    Region region() { return random.region(dims, -reach, reach); }
};

PointSet without(const PointSet& points, const PointSet& taken) {
    PointSet rest;
    std::set_difference(points.begin(), points.end(), taken.begin(), taken.end(),
                        std::inserter(rest, rest.end()));
    return rest;
}

TEST(Region, SizeShapeAndMembershipAgreeWithItsPoints) {
    for (int seed = 0; seed < num_cases; ++seed) {
        RegionCase c(seed);
        const Region region = c.region();
        const PointSet points = points_of(region);
        EXPECT_EQ(region.size(), static_cast<std::int64_t>(points.size()));
        EXPECT_EQ(region.empty(), points.empty());
        EXPECT_EQ(region.shape().product(), region.size());
        for (int i = 0; i < 20; ++i) {
            const Point p = c.random.point(c.dims, -c.reach - 1, c.reach + 1);
            EXPECT_EQ(region.contains(p), points.count(p.to_vector()) == 1);
        }
    }
}

TEST(Region, ForEachWalksTheLastDimensionFastest) {
    for (int seed = 0; seed < num_cases; ++seed) {
        RegionCase c(seed);
        const Region region = c.region();
        std::vector<Coordinates> walked;
        region.for_each([&](const Point& p) { walked.push_back(p.to_vector()); });
        const PointSet points = points_of(region);
        EXPECT_EQ(walked, std::vector<Coordinates>(points.begin(), points.end()));
    }
}

TEST(Region, IntersectionAndSubtractionAgreeWithPointSets) {
    for (int seed = 0; seed < num_cases; ++seed) {
        RegionCase c(seed);
        const Region a = c.region(), b = c.region();
        const PointSet in_a = points_of(a), in_b = points_of(b);
        const PointSet only_a = without(in_a, in_b);
        EXPECT_EQ(points_of(a.intersected(b)), without(in_a, only_a));
        EXPECT_EQ(a.intersected(b), b.intersected(a));
        EXPECT_EQ(a.intersects(b), only_a.size() < in_a.size());
        EXPECT_EQ(a.contains(b), without(in_b, in_a).empty());
        const std::vector<Region> parts = a.subtracted(b);
        EXPECT_LE(parts.size(), static_cast<std::size_t>(2 * c.dims));
        EXPECT_EQ(points_of_disjoint(parts), only_a);
        for (const Region& part : parts) EXPECT_FALSE(part.empty());
    }
}

TEST(Region, SubtractAllAgreesWithPointSets) {
    for (int seed = 0; seed < num_cases; ++seed) {
        RegionCase c(seed);
        const Region region = c.region();
        std::vector<Region> others;
        PointSet expected = points_of(region);
        for (std::int64_t i = c.random.integer(0, 5); i > 0; --i) {
            others.push_back(c.region());
            expected = without(expected, points_of(others.back()));
        }
        EXPECT_EQ(points_of_disjoint(subtract_all(region, others)), expected);
    }
}

TEST(Region, BoundingIsTheSmallestBoxOfBoth) {
    for (int seed = 0; seed < num_cases; ++seed) {
        RegionCase c(seed);
        const Region a = c.region(), b = c.region();
        PointSet both = points_of(a);
        both.merge(points_of(b));
        const Region box = a.bounding(b);
        EXPECT_EQ(box.empty(), both.empty());
        for (int d = 0; d < c.dims && !both.empty(); ++d) {
            std::int64_t least = c.reach, most = -c.reach;
            for (const Coordinates& p : both) {
                least = std::min(least, p[static_cast<std::size_t>(d)]);
                most = std::max(most, p[static_cast<std::size_t>(d)]);
            }
            EXPECT_EQ(box.lo()[d], least);
            EXPECT_EQ(box.hi()[d], most + 1);
        }
    }
}

TEST(Region, GrownAndShiftedMoveEveryPoint) {
    for (int seed = 0; seed < num_cases; ++seed) {
        RegionCase c(seed);
        const Region region = c.region();
        const Point lower = c.random.point(c.dims, -2, 2), upper = c.random.point(c.dims, -2, 2);
        const Region grown = region.grown(lower, upper), shifted = region.shifted(lower);
        PointSet expected_shifted;
        for (Coordinates p : points_of(region)) {
            for (std::size_t d = 0; d < p.size(); ++d) p[d] += lower[static_cast<int>(d)];
            expected_shifted.insert(p);
        }
        EXPECT_EQ(points_of(shifted), expected_shifted);
        EXPECT_EQ(region.grown(lower), region.grown(lower, lower));
        if (region.empty()) {
            EXPECT_TRUE(grown.empty());
            continue;
        }
        Coordinates lo = region.lo().to_vector(), hi = region.hi().to_vector();
        for (int d = 0; d < c.dims; ++d) {
            lo[static_cast<std::size_t>(d)] -= lower[d];
            hi[static_cast<std::size_t>(d)] += upper[d];
        }
        PointSet expected_grown;
        region_oracle::for_each_between(lo, hi,
                                        [&](const Coordinates& p) { expected_grown.insert(p); });
        EXPECT_EQ(points_of(grown), expected_grown);
    }
}

TEST(Region, CoarseCellsAreThoseThatFinePointsTouch) {
    for (int seed = 0; seed < num_cases; ++seed) {
        RegionCase c(seed);
        const Region fine = c.region();
        const Point ratio = c.random.point(c.dims, 1, 4);
        // Which cell holds a fine point is counted up from a cell below all of them.
        PointSet expected;
        for (const Coordinates& p : points_of(fine)) {
            Coordinates cell(p.size(), -c.reach - 1);
            for (std::size_t d = 0; d < p.size(); ++d) {
                while ((cell[d] + 1) * ratio[static_cast<int>(d)] <= p[d]) ++cell[d];
            }
            expected.insert(cell);
        }
        EXPECT_EQ(points_of(fine.coarsened(ratio)), expected);
        const Region coarse = c.region();
        EXPECT_EQ(coarse.refined(ratio).coarsened(ratio), coarse);
        EXPECT_EQ(coarse.refined(ratio).size(), coarse.size() * ratio.product());
    }
}

TEST(Region, EveryBoxWithoutPointsIsTheSame) {
    const Region empty = Region::empty_region(2);
    EXPECT_EQ(Region({5, 5}, {5, 9}), empty);
    EXPECT_EQ(Region({7, 0}, {3, 9}), empty);
    EXPECT_EQ(Region({0, 0}, {2, 2}).intersected(Region({2, 0}, {4, 2})), empty);
    EXPECT_EQ(Region({0, 0}, {2, 2}).grown(Point{-1, -1}), empty);
    EXPECT_EQ(empty.grown(Point{3, 3}), empty);
    EXPECT_EQ(empty.shifted(Point{3, 3}), empty);
    EXPECT_EQ(empty.bounding(Region({1, 1}, {2, 2})), Region({1, 1}, {2, 2}));
    EXPECT_NE(empty, Region::empty_region(3));
    EXPECT_TRUE(Region({1, 1}, {2, 2}).contains(empty));
    EXPECT_TRUE(empty.contains(empty));
    EXPECT_FALSE(empty.contains(Point{0, 0}));
    EXPECT_EQ(empty.size(), 0);
}

TEST(Region, WithoutDimensionsIsEmpty) {
    EXPECT_TRUE(Region().empty());
    EXPECT_EQ(Region().size(), 0);
    EXPECT_EQ(Region(), Region::from_shape(Point()));
}

TEST(Region, IsWrittenAsSlices) {
    EXPECT_EQ(Region({0, 2}, {4, 8}).to_string(), "[0:4, 2:8)");
    EXPECT_EQ(Region({-3}, {0}).to_string(), "[-3:0)");
}

TEST(Region, RefusesWhatDoesNotFit) {
    const Region box({0, 0}, {2, 2}), line({0}, {2});
    expect_error(ErrorCode::invalid_argument, [] { Region({0, 0}, {1}); });
    expect_error(ErrorCode::invalid_argument, [] { Region::from_shape({3, -1}); });
    expect_error(ErrorCode::invalid_argument, [&] { box.coarsened({2, 0}); });
    expect_error(ErrorCode::invalid_argument, [&] { box.refined({-1, 1}); });
    expect_error(ErrorCode::mismatch, [&] { box.intersected(line); });
    expect_error(ErrorCode::mismatch, [&] { box.intersects(line); });
    expect_error(ErrorCode::mismatch, [&] { box.contains(line); });
    expect_error(ErrorCode::mismatch, [&] { box.contains(Point{1}); });
    expect_error(ErrorCode::mismatch, [&] { box.bounding(line); });
    expect_error(ErrorCode::mismatch, [&] { box.subtracted(line); });
    expect_error(ErrorCode::mismatch, [&] { subtract_all(box, {line}); });
    expect_error(ErrorCode::mismatch, [&] { box.grown({1}); });
    expect_error(ErrorCode::mismatch, [&] { box.shifted({1}); });
    expect_error(ErrorCode::mismatch, [&] { box.coarsened({2}); });
}

TEST(Region, RefusesSizesBeyond63Bits) {
    EXPECT_EQ(Region({smallest}, {-1}).size(), largest);
    expect_error(ErrorCode::out_of_range, [] { Region({smallest}, {0}); });
    expect_error(ErrorCode::out_of_range, [] { Region({smallest}, {largest}); });
    expect_error(ErrorCode::out_of_range, [] { Region({0, 0}, {largest, 2}).size(); });
    expect_error(ErrorCode::out_of_range, [] { Region({1}, {largest}).shifted({1}); });
    expect_error(ErrorCode::out_of_range, [] { Region({1}, {largest}).refined({2}); });
}

}  // namespace
}  // namespace datamover

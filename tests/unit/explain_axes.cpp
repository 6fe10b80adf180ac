// SPDX-License-Identifier: BSD-3-Clause
// Overlap of two block-cyclic axes: agrees with a check of every position.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "datamover/error.hpp"
#include "plan/axis_overlap.hpp"

namespace datamover::plan {
namespace {

using std::int64_t;
using Counts = std::vector<std::vector<int64_t>>;

Counts count_positions(const BlockCyclicAxis& s, const BlockCyclicAxis& d, int64_t extent) {
    Counts counts(static_cast<std::size_t>(s.coordinates),
                  std::vector<int64_t>(static_cast<std::size_t>(d.coordinates), 0));
    for (int64_t t = 0; t < extent; ++t)
        ++counts[static_cast<std::size_t>(s.coordinate_at(t))]
                [static_cast<std::size_t>(d.coordinate_at(t))];
    return counts;
}

void expect_same(const AxisOverlap& overlap, const Counts& counts) {
    std::map<int64_t, int64_t> sizes;
    std::vector<int64_t> row_sum(counts.size(), 0), column_sum(counts[0].size(), 0);
    std::vector<int64_t> row_peers = row_sum, column_peers = column_sum;
    for (std::size_t a = 0; a < counts.size(); ++a)
        for (std::size_t c = 0; c < counts[a].size(); ++c) {
            const int64_t n = counts[a][c];
            ASSERT_EQ(overlap.shared(static_cast<int64_t>(a), static_cast<int64_t>(c)), n);
            if (n == 0) continue;
            ++sizes[n];
            row_sum[a] += n, column_sum[c] += n;
            ++row_peers[a], ++column_peers[c];
        }
    EXPECT_EQ(overlap.sizes(), sizes);
    for (std::size_t a = 0; a < counts.size(); ++a) {
        EXPECT_EQ(overlap.elems(Side::source, static_cast<int64_t>(a)), row_sum[a]);
        EXPECT_EQ(overlap.peers(Side::source, static_cast<int64_t>(a)), row_peers[a]);
    }
    for (std::size_t c = 0; c < counts[0].size(); ++c) {
        EXPECT_EQ(overlap.elems(Side::destination, static_cast<int64_t>(c)), column_sum[c]);
        EXPECT_EQ(overlap.peers(Side::destination, static_cast<int64_t>(c)), column_peers[c]);
    }
}

void expect_ranges(const AxisOverlap& overlap, const Counts& counts, std::mt19937& random) {
    const auto pick = [&](std::size_t n) {
        return std::uniform_int_distribution<std::size_t>(0, n)(random);
    };
    std::size_t a0 = pick(counts.size()), a1 = pick(counts.size());
    std::size_t c0 = pick(counts[0].size()), c1 = pick(counts[0].size());
    if (a1 < a0) std::swap(a0, a1);
    if (c1 < c0) std::swap(c0, c1);
    int64_t sum = 0;
    for (std::size_t a = a0; a < a1; ++a)
        for (std::size_t c = c0; c < c1; ++c) sum += counts[a][c];
    EXPECT_EQ(overlap.shared(static_cast<int64_t>(a0), static_cast<int64_t>(a1),
                             static_cast<int64_t>(c0), static_cast<int64_t>(c1)),
              sum);
}

class AxisOverlapRandom : public ::testing::TestWithParam<unsigned> {
protected:
    std::mt19937 random{GetParam()};
    int64_t pick(int64_t lo, int64_t hi) {
        return std::uniform_int_distribution<int64_t>(lo, hi)(random);
    }
    BlockCyclicAxis axis() {
        BlockCyclicAxis a;
        a.block = pick(1, 7);
        a.coordinates = pick(1, 9);
        a.first = pick(0, a.coordinates - 1);
        a.lo = pick(0, 40);
        return a;
    }
    /// At most one block per coordinate, as BLOCK gives.
    BlockCyclicAxis interval_axis(int64_t extent) {
        BlockCyclicAxis a = axis();
        a.lo = pick(0, 5);
        a.block = (a.lo + extent + a.coordinates - 1) / a.coordinates + pick(0, 3);
        return a;
    }
};

TEST_P(AxisOverlapRandom, WalkingAgreesWithEveryPosition) {
    const BlockCyclicAxis s = axis(), d = axis();
    const int64_t extent = pick(1, 700);
    const Counts counts = count_positions(s, d, extent);
    const AxisOverlap overlap(s, d, extent);
    expect_same(overlap, counts);
    for (int i = 0; i < 5; ++i) expect_ranges(overlap, counts, random);
}

TEST_P(AxisOverlapRandom, IntervalsAgreeWithEveryPosition) {
    const int64_t extent = pick(1, 300);
    const BlockCyclicAxis whole = interval_axis(extent), dealt = axis();
    expect_same(AxisOverlap(whole, dealt, extent, 0), count_positions(whole, dealt, extent));
    expect_same(AxisOverlap(dealt, whole, extent, 0), count_positions(dealt, whole, extent));
}

INSTANTIATE_TEST_SUITE_P(Seeds, AxisOverlapRandom, ::testing::Range(0u, 200u));

TEST(AxisOverlap, RefusesWhatItCannotSumInTime) {
    const BlockCyclicAxis s{1, 5, 0, 0}, d{1, 7, 0, 0};
    try {
        AxisOverlap(s, d, 1000, 10);
        FAIL() << "no error";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::unsupported);
    }
}

TEST(AxisOverlap, AMillionCoordinatesAndATrillionPositions) {
    const int64_t n = 1'000'000, extent = n * n;
    const AxisOverlap overlap({n, n, 0, 0}, {1, n, 0, 0}, extent);
    const std::map<int64_t, int64_t> one_size{{1, n * n}};
    EXPECT_EQ(overlap.sizes(), one_size);
    EXPECT_EQ(overlap.peers(Side::source, 123'456), n);
    EXPECT_EQ(overlap.shared(123'456, 654'321), 1);
}

}  // namespace
}  // namespace datamover::plan

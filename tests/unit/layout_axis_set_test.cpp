// SPDX-License-Identifier: BSD-3-Clause
// Periodic index sets: intersect correctly, at a cost that does not depend on the extent.
#include <map>

#include "datamover/advanced/axis_set.hpp"
#include "layout_oracle.hpp"

namespace datamover {
namespace {

using layout_oracle::cases;
using layout_oracle::Random;
using layout_oracle::seed_of;
using Positions = std::map<std::int64_t, std::int64_t>;  // global index to local position

Positions positions_of(const AxisSet& set) {
    Positions positions;
    std::int64_t local = 0;
    for (std::int64_t begin = set.first; begin < set.end; begin += set.period)
        for (std::int64_t j = 0; j < set.length && begin + j < set.end; ++j)
            positions[begin + j] = local++;
    return positions;
}

AxisSet random_set(Random& random) {
    const std::int64_t first = random.integer(-10, 20), length = random.integer(1, 9);
    return {first, length, length + (random.chance(20) ? 0 : random.integer(0, 20)),
            first + random.integer(-5, 150)};
}

using Meetings = std::vector<std::pair<std::int64_t, std::int64_t>>;

Meetings meetings_of(const AxisTable& table) {
    Meetings meetings;
    table.for_each_block([&](std::int64_t source, std::int64_t destination, std::int64_t length) {
        for (std::int64_t i = 0; i < length; ++i)
            meetings.emplace_back(source + i, destination + i);
    });
    return meetings;
}

TEST(AxisSet, LocalAndGlobalPositionsAreThoseOfTheDefinition) {
    for (std::int64_t i = 0; i < cases(300); ++i) {
        Random random(seed_of(i));
        const AxisSet set = random_set(random);
        const Positions expected = positions_of(set);
        ASSERT_EQ(set.size(), static_cast<std::int64_t>(expected.size()));
        for (std::int64_t index = set.first - 5; index < set.end + 5; ++index) {
            const auto found = expected.find(index);
            ASSERT_EQ(set.local(index), found == expected.end() ? -1 : found->second);
        }
        for (const auto& [global, local] : expected) ASSERT_EQ(set.global(local), global);
        if (!expected.empty()) {
            EXPECT_EQ(set.lower(), expected.begin()->first);
            EXPECT_EQ(set.upper(), expected.rbegin()->first + 1);
        }
    }
}

TEST(AxisSet, IntersectionsAreThoseFoundIndexByIndex) {
    for (std::int64_t i = 0; i < cases(3000); ++i) {
        Random random(seed_of(i));
        const AxisSet source = random_set(random), destination = random_set(random);
        const std::int64_t source_lo = random.integer(-20, 40), extent = random.integer(0, 160);
        const std::int64_t destination_lo = random.integer(-20, 40);
        const Positions from = positions_of(source), to = positions_of(destination);
        Meetings expected;
        for (std::int64_t t = 0; t < extent; ++t) {
            const auto s = from.find(source_lo + t);
            const auto d = to.find(destination_lo + t);
            if (s != from.end() && d != to.end()) expected.emplace_back(s->second, d->second);
        }
        const AxisTable table = intersect(source, source_lo, destination, destination_lo, extent);
        ASSERT_EQ(meetings_of(table), expected) << "case " << i;
        ASSERT_EQ(table.size(), static_cast<std::int64_t>(expected.size())) << "case " << i;
    }
}

TEST(AxisSet, TablesDoNotGrowWithTheExtent) {
    for (std::int64_t i = 0; i < cases(200); ++i) {
        Random random(seed_of(i));
        AxisSet source = random_set(random), destination = random_set(random);
        const std::int64_t period = std::lcm(source.period, destination.period);
        // In one period each block of one set meets each of the other at most once.
        const std::int64_t blocks = period / source.period + period / destination.period + 2;
        for (const std::int64_t extent : {std::int64_t{100'000}, std::int64_t{4'000'000'000'003}}) {
            source.end = destination.end = extent + 100;
            const AxisTable table = intersect(source, 0, destination, 0, extent);
            EXPECT_LE(static_cast<std::int64_t>(table.runs().size() + table.tail().size()),
                      3 * blocks);
        }
    }
}

TEST(AxisSet, SizesOfLargeTablesFollowFromOnePeriod) {
    for (std::int64_t i = 0; i < cases(200); ++i) {
        Random random(seed_of(i));
        AxisSet source = random_set(random), destination = random_set(random);
        const std::int64_t period = std::lcm(source.period, destination.period);
        const std::int64_t start = std::max<std::int64_t>({0, source.first, destination.first});
        const std::int64_t periods = 3'000'000'000, rest = random.integer(0, period - 1);
        const std::int64_t extent = start + periods * period + rest;
        source.end = destination.end = extent;
        const auto count = [&](std::int64_t length) {
            std::int64_t n = 0;
            for (std::int64_t t = start; t < start + length; ++t)
                n += (t - source.first) % source.period < source.length &&
                     (t - destination.first) % destination.period < destination.length;
            return n;
        };
        ASSERT_EQ(intersect(source, 0, destination, 0, extent).size(),
                  periods * count(period) + count(rest))
            << "case " << i;
    }
}

TEST(AxisSet, CommonPeriodIsBoundedByTheLargestInteger) {
    EXPECT_EQ(common_period(6, 4), 12);
    EXPECT_EQ(common_period(std::int64_t{1} << 40, (std::int64_t{1} << 40) - 1),
              std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace datamover

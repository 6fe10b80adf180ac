// SPDX-License-Identifier: BSD-3-Clause
// Axis tables: halves, reversals, shifts and folds hold the expected positions.
#include <gtest/gtest.h>

#include "datamover/error.hpp"
#include "relation_oracle.hpp"

using namespace datamover;
using namespace relation_oracle;

namespace {

Addresses counting(std::size_t n) {
    Addresses a(n);
    std::iota(a.begin(), a.end(), std::int64_t{0});
    return a;
}

AxisTable of_runs(std::vector<AxisRun> runs) {
    return AxisTable(std::move(runs));
}

}  // namespace

TEST(AxisTable, DerivedTablesHoldTheSamePositions) {
    Engine random(21);
    for (int i = 0; i < 500; ++i) {
        const AxisTable t = random_table(random);
        const Positions p = positions_of(t);
        ASSERT_EQ(t.size(), static_cast<std::int64_t>(p.source.size()));
        const Positions s = positions_of(t.source_half());
        EXPECT_EQ(s.source, p.source);
        EXPECT_EQ(s.destination, counting(p.source.size()));
        const Positions d = positions_of(t.destination_half());
        EXPECT_EQ(d.source, counting(p.source.size()));
        EXPECT_EQ(d.destination, p.destination);
        const Positions r = positions_of(t.reversed());
        EXPECT_EQ(r.source, p.destination);
        EXPECT_EQ(r.destination, p.source);
        Positions shifted = positions_of(t.shifted(-3, 7));
        for (std::int64_t& v : shifted.source) v += 3;
        for (std::int64_t& v : shifted.destination) v -= 7;
        EXPECT_EQ(shifted.source, p.source);
        EXPECT_EQ(shifted.destination, p.destination);
    }
}

TEST(AxisTable, FoldingKeepsTheOrder) {
    Engine random(22);
    for (int i = 0; i < 500; ++i) {
        const AxisTable t = random_table(random);
        std::vector<AxisRun> blocks;
        t.for_each_block([&](std::int64_t s, std::int64_t d, std::int64_t n) {
            blocks.push_back({s, d, n, 1, 0, 0});
        });
        const std::vector<AxisRun> folded = fold_runs(blocks);
        EXPECT_LE(folded.size(), blocks.size());
        const Positions before = positions_of(of_runs(blocks));
        const Positions after = positions_of(of_runs(folded));
        EXPECT_EQ(after.source, before.source);
        EXPECT_EQ(after.destination, before.destination);
    }
}

TEST(AxisTable, EquallySpacedBlocksBecomeOneRun) {
    std::vector<AxisRun> blocks;
    for (std::int64_t k = 0; k < 100; ++k) blocks.push_back({8 * k, 4 * k, 3, 1, 0, 0});
    const std::vector<AxisRun> folded = fold_runs(blocks);
    ASSERT_EQ(folded.size(), 1u);
    EXPECT_EQ(folded[0], (AxisRun{0, 0, 3, 100, 8, 4}));
}

TEST(AxisTable, BadTablesAreRefused) {
    EXPECT_THROW(of_runs({{0, 0, 0, 1, 0, 0}}), Error);
    EXPECT_THROW(of_runs({{0, 0, 1, 0, 0, 0}}), Error);
    EXPECT_THROW(AxisTable({{0, 0, 1, 1, 0, 0}}, -1), Error);
    EXPECT_THROW(of_runs({{0, 0, std::int64_t{1} << 40, std::int64_t{1} << 40, 0, 0}}), Error);
    EXPECT_THROW(AxisTable::interval(0, 0, -1), Error);
    EXPECT_TRUE(AxisTable::interval(5, 6, 0).empty());
}

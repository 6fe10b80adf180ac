// SPDX-License-Identifier: BSD-3-Clause
// Decode-or-recompute model: predicts the values in the paper's tables.
#include "datamover/advanced/decoding_costs.hpp"

#include <gtest/gtest.h>

#include "datamover/error.hpp"

using namespace datamover;

namespace {

/// iWarp with its dynamic instruction counts, as the paper gives them.
RecomputeModel iwarp(double generate) {
    return RecomputeModel({2e7, 1e7, 1e7, 1e7}, {generate, 7, 3, 8});
}

/// Paragon with its static instruction counts.
RecomputeModel paragon(double generate) {
    return RecomputeModel({5e7, 9e6, 0.9e6, 8.2e6}, {generate, 6, 11, 7});
}

}  // namespace

TEST(RecomputeModel, BreakEvenOnIwarp) {
    const std::int64_t predicted[] = {13, 7, 5, 4, 4, 3, 3, 3};
    for (int g = 1; g <= 8; ++g)
        EXPECT_EQ(iwarp(g).break_even_uses(), predicted[g - 1]) << g << " instructions";
}

TEST(RecomputeModel, SpeedupOnIwarp) {
    const double predicted[] = {1.07, 1.15, 1.23, 1.32, 1.39, 1.47, 1.54, 1.61};
    for (int g = 1; g <= 8; ++g)
        EXPECT_NEAR(iwarp(g).ultimate_speedup(), predicted[g - 1], 0.02) << g << " instructions";
}

TEST(RecomputeModel, ThresholdOnParagon) {
    EXPECT_FALSE(paragon(16).decoding_pays());
    EXPECT_TRUE(paragon(17).decoding_pays());
    EXPECT_EQ(paragon(16).break_even_uses(), RecomputeModel::never);
    EXPECT_NEAR(paragon(17).break_even_uses(), 41, 1);
    EXPECT_NEAR(paragon(25).break_even_uses(), 4, 1);
}

TEST(RecomputeModel, BreakEvenIsWhereTheTimesMeet) {
    for (double g = 17; g < 60; g += 1.5) {
        const RecomputeModel m = paragon(g);
        const std::int64_t uses = m.break_even_uses();
        EXPECT_LE(m.amortised_seconds(uses), m.recompute_seconds() * (1 + 1e-12));
        if (uses > 1) {
            EXPECT_GT(m.amortised_seconds(uses - 1), m.recompute_seconds());
        }
    }
}

TEST(RecomputeModel, BadParametersAreRefused) {
    EXPECT_THROW(RecomputeModel({0, 1, 1, 1}, {1, 1, 1, 1}), Error);
    EXPECT_THROW(RecomputeModel({1, 1, 1, 1}, {-1, 1, 1, 1}), Error);
    EXPECT_THROW(iwarp(3).amortised_seconds(0), Error);
}

// SPDX-License-Identifier: BSD-3-Clause
// The rounds of a turn against a clock that the test moves.
#include "mover/tuning_turn.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

namespace datamover {
namespace {

/// Runs a turn whose rounds take what is said; gives their number.
std::int64_t rounds_of(double most_ns, std::int64_t first_ns,
                       const std::function<std::int64_t(std::int64_t)>& ns_of_round) {
    TuningTurn turn(most_ns, first_ns);
    std::int64_t rounds = 0;
    while (const std::int64_t part = turn.next_rounds()) {
        std::int64_t ns = 0;
        for (std::int64_t i = 0; i < part; ++i) ns += ns_of_round(rounds + i);
        turn.add_ns(ns);
        rounds += part;
    }
    return rounds;
}

TEST(TuningTurn, HasAsManyRoundsAsFit) {
    for (const std::int64_t first_ns : {1, 7, 1000, 99'999, 100'000}) {
        const auto faster = [&](std::int64_t) { return first_ns - 1; };
        EXPECT_EQ(rounds_of(1e5, first_ns, faster),
                  std::min<std::int64_t>(100'000 / first_ns, TuningTurn::most_rounds));
    }
}

TEST(TuningTurn, HasOneRoundAtLeastAndFewEnough) {
    EXPECT_EQ(rounds_of(10, 1000, [](std::int64_t) { return 1000; }), 1);
    EXPECT_EQ(rounds_of(0, 1000, [](std::int64_t) { return 1000; }), 1);
    EXPECT_EQ(rounds_of(1e12, 0, [](std::int64_t) { return 0; }), TuningTurn::most_rounds);
}

TEST(TuningTurn, EndsEarlyWhereRoundsGetSlower) {
    EXPECT_LE(rounds_of(1e6, 100, [](std::int64_t) { return 1'000'000; }), 10'000 / 64 + 1);
    for (const std::int64_t fast : {0, 10, 500, 3000}) {
        const std::int64_t rounds =
            rounds_of(1e6, 100, [&](std::int64_t round) { return round < fast ? 100 : 20'000; });
        EXPECT_LT(rounds, 4 * (fast + 10'000 / 64 + 50)) << fast;
    }
}

}  // namespace
}  // namespace datamover

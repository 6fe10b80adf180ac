// SPDX-License-Identifier: BSD-3-Clause
// The rounds of a turn against a clock that the test moves.
#include "mover/tuning_turn.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

namespace datamover {
namespace {

constexpr std::int64_t most_rounds = 10'000;

/// Runs a turn whose rounds take what is said; gives their number.
std::int64_t rounds_of(double most_ns,
                       const std::function<std::int64_t(std::int64_t)>& ns_of_round) {
    std::int64_t spent_ns = 0, rounds = 0;
    const auto times_ns = rounds_within(most_ns, most_rounds, [&] {
        const std::int64_t ns = ns_of_round(rounds++);
        spent_ns += ns;
        return RoundTime{ns, spent_ns};
    });
    for (std::int64_t i = 0; i < rounds; ++i)
        EXPECT_EQ(times_ns[static_cast<std::size_t>(i)], ns_of_round(i));
    return std::ssize(times_ns);
}

TEST(TuningTurn, HasAsManyRoundsAsFit) {
    for (const std::int64_t ns : {1, 7, 1000, 99'999, 100'000})
        EXPECT_EQ(rounds_of(1e5, [&](std::int64_t) { return ns; }),
                  std::min((100'000 + ns - 1) / ns, most_rounds));
}

TEST(TuningTurn, HasOneRoundAtLeastAndFewEnough) {
    EXPECT_EQ(rounds_of(10, [](std::int64_t) { return 1000; }), 1);
    EXPECT_EQ(rounds_of(0, [](std::int64_t) { return 1000; }), 1);
    EXPECT_EQ(rounds_of(1e12, [](std::int64_t) { return 0; }), most_rounds);
}

TEST(TuningTurn, EndsEarlyWhereRoundsGetSlower) {
    EXPECT_EQ(rounds_of(1e6, [](std::int64_t) { return 1'000'000; }), 1);
    for (const std::int64_t fast : {0, 10, 500, 3000}) {
        const std::int64_t rounds =
            rounds_of(1e6, [&](std::int64_t round) { return round < fast ? 100 : 20'000; });
        EXPECT_LE(rounds, fast + 50) << fast;
    }
}

}  // namespace
}  // namespace datamover

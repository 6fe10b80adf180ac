// SPDX-License-Identifier: BSD-3-Clause
// Store choice: finds the faster way of writing messages, whatever the program does between them.
#include "stream/store_choice.hpp"

#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>

namespace datamover::stream {
namespace {

using std::chrono::nanoseconds;

constexpr std::uint64_t message_bytes = 1 << 20;
/// Enough for all trials, which are of less than a hundred messages.
constexpr int first_messages = 200;

/// A program that sends, whose messages take so long each way.
struct Program {
    nanoseconds around{100'000}, through{100'000};
    nanoseconds pause{0};  ///< every eighth message waits for it
    StoreChoice choice{};
    StoreChoice::Time now{nanoseconds(1)};
    int sent = 0;

    bool send(std::uint64_t bytes = message_bytes) {
        const bool goes_around = choice.goes_around(now, bytes);
        now += goes_around ? around : through;
        if (++sent % 8 == 0) now += pause;
        return goes_around;
    }
    /// How many of so many messages go around the caches.
    int send_many(int count) {
        int gone_around = 0;
        for (int n = 0; n < count; ++n) gone_around += send();
        return gone_around;
    }
};

TEST(StreamStoreChoice, TakesTheFasterWay) {
    for (const bool around_is_faster : {true, false}) {
        Program program;
        (around_is_faster ? program.around : program.through) = nanoseconds(80'000);
        const int tried = program.send_many(first_messages);
        EXPECT_GT(tried, 0);
        EXPECT_LT(tried, first_messages);
        EXPECT_EQ(program.send_many(1000), around_is_faster ? 1000 : 0);
    }
}

TEST(StreamStoreChoice, PausesOfTheProgramDoNotCount) {
    for (const bool around_is_faster : {true, false}) {
        Program program;
        program.pause = std::chrono::milliseconds(50);
        (around_is_faster ? program.around : program.through) = nanoseconds(80'000);
        program.send_many(first_messages);
        EXPECT_EQ(program.send_many(1000), around_is_faster ? 1000 : 0);
    }
}

TEST(StreamStoreChoice, TriesAgain) {
    Program program;
    program.around = nanoseconds(80'000);
    program.send_many(first_messages);
    program.around = nanoseconds(200'000);
    program.send_many(10'000);
    EXPECT_EQ(program.send_many(100), 0);
}

TEST(StreamStoreChoice, SizesAreTriedApart) {
    Program program;
    program.through = nanoseconds(80'000);
    program.send_many(first_messages);
    EXPECT_FALSE(program.send());
    EXPECT_TRUE(program.send(message_bytes / 16));  // nothing is known of these yet
    EXPECT_FALSE(program.send());
}

}  // namespace
}  // namespace datamover::stream

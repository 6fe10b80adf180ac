// SPDX-License-Identifier: BSD-3-Clause
// Places: streams that share them take turns in order, and no more than the limit hold one.
#include "stream/sender/places.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "datamover/error.hpp"

namespace datamover::stream {
namespace {

class Holder : public PlaceHolder {
public:
    bool is_taken() const override { return taken; }
    bool is_within_step() const override { return within_step; }
    void end_stalled(std::chrono::steady_clock::time_point) override { ++asked_to_end; }

    bool taken = true, within_step = false;
    int asked_to_end = 0;
};

StreamManagerOptions with(std::int64_t active) {
    StreamManagerOptions options;
    options.active = active;
    return options;
}

TEST(StreamPlaces, AreRefusedWhereTheyMakeNoSense) {
    EXPECT_THROW(Places(with(0)), Error);
    StreamManagerOptions options;
    options.unit = "week";
    EXPECT_THROW(Places{options}, Error);
    options.unit = "array";
    options.stall_seconds = 0.0;
    EXPECT_THROW(Places{options}, Error);
}

/// Streams that ask at random, each until it has its place, and consumers that take at random.
TEST(StreamPlaces, AreGivenInTheOrderOfAsking) {
    for (unsigned seed = 0; seed < 50; ++seed) {
        std::mt19937 random(seed);
        const auto drawn = [&random](std::size_t below) { return random() % below; };
        const std::size_t active = 1 + drawn(3), count = active + 1 + drawn(3);
        Places places(with(static_cast<std::int64_t>(active)));
        std::vector<Holder> holders(count);
        std::map<Holder*, std::int64_t> turns;
        std::vector<std::shared_ptr<void>> entered;
        for (std::size_t n = 0; n < count; ++n)
            entered.push_back(places.enter(std::to_string(n), &holders[n], [] {}));
        std::vector<Holder*> asking;
        std::int64_t given = 0, ended = 0;
        for (int event = 0; event < 500; ++event) {
            Holder& one = holders[drawn(count)];
            if (drawn(2) == 0) {
                one.taken = true;
            } else {
                const auto place = std::find(asking.begin(), asking.end(), &one);
                const bool waited = place != asking.end();
                if (places.take(one, true)) {
                    // Nobody who asked before is overtaken but by who has a place already.
                    EXPECT_TRUE(asking.empty() || (waited && place == asking.begin()));
                    if (waited) asking.erase(place);
                    one.taken = false;
                    given += turns[&one] != places.turn_of(one) + 1;
                    turns[&one] = places.turn_of(one) + 1;
                } else if (!waited) {
                    asking.push_back(&one);
                }
            }
            EXPECT_LE(places.active(), static_cast<std::int64_t>(active));
            for (const auto& [name, turn] : places.take_ended()) {
                Holder& last = holders[static_cast<std::size_t>(std::stoi(name))];
                EXPECT_TRUE(last.taken || places.turn_of(last) > turn);
                ++ended;
            }
        }
        EXPECT_EQ(given - ended, places.active());
        EXPECT_GT(given, 10);
    }
}

TEST(StreamPlaces, AreKeptForAStep) {
    Places places(with(1));
    Holder one, other;
    const auto first = places.enter("one", &one, [] {});
    auto second = places.enter("other", &other, [] {});
    EXPECT_TRUE(places.take(one, true));
    one.taken = false;
    EXPECT_TRUE(places.take(one, true)) << "no other one waits";
    std::thread([&] { EXPECT_FALSE(places.take(other, true)); }).join();
    EXPECT_TRUE(places.take(one, false)) << "within a step";
    EXPECT_FALSE(places.take(one, true)) << "another one waits";
    one.taken = true;
    EXPECT_TRUE(places.take(other, true));
    EXPECT_EQ(places.take_ended(), (std::vector<Turn>{{"one", 0}}));
    second.reset();
    EXPECT_TRUE(places.take(one, true));
    EXPECT_EQ(places.active(), 1);
}

TEST(StreamPlaces, AreNotWaitedForByWhoWouldHaveToGiveThemUp) {
    Places places(with(1));
    Holder one, other;
    const auto first = places.enter("one", &one, [] {});
    const auto second = places.enter("other", &other, [] {});
    EXPECT_TRUE(places.take(one, true));
    one.taken = false;
    one.within_step = true;
    EXPECT_THROW(places.take(other, true), Error);
    std::thread([&] { EXPECT_FALSE(places.take(other, true)); }).join();
    one.within_step = false;
    EXPECT_FALSE(places.take(other, true)) << "its consumer may take it";
    places.stop_waiting(&other);
    EXPECT_TRUE(places.take(one, true));
}

TEST(StreamPlaces, MemoryIsFreedOnceItsTurnHasEnded) {
    Places places(with(1));
    int freed = 0;
    {
        const auto entered = places.enter("one", nullptr, [&freed] { ++freed; });
        EXPECT_THROW(places.enter("one", nullptr, [] {}), Error);
        places.begin_turn({"one", 4});
        places.end_turn({"one", 3});  // told late
        EXPECT_EQ(freed, 0);
        places.end_turn({"one", 4});
        places.end_turn({"another", 4});
        EXPECT_EQ(freed, 1);
    }
    const auto again = places.enter("one", nullptr, [] {});
}

TEST(StreamPlaces, WhoStallsIsEnded) {
    StreamManagerOptions options = with(1);
    options.stall_seconds = 1.0;
    Places places(options);
    Holder one, other;
    const auto first = places.enter("one", &one, [] {});
    const auto second = places.enter("other", &other, [] {});
    EXPECT_TRUE(places.take(one, true));
    one.taken = false;
    EXPECT_FALSE(places.take(other, true));
    EXPECT_EQ(one.asked_to_end, 1);
}

}  // namespace
}  // namespace datamover::stream

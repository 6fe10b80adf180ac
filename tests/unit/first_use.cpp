// SPDX-License-Identifier: BSD-3-Clause
// Values computed at the first use: computed once, and computed again after a failure.
#include "geometry/first_use.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "datamover/block_cyclic.hpp"
#include "datamover/floor_plan.hpp"
#include "datamover/motion_plan.hpp"

namespace {

using datamover::FloorPlan;
using datamover::MotionPlan;
using datamover::Point;
using datamover::Region;
using datamover::geometry::FirstUse;

constexpr int num_threads = 8;

/// Runs `work` on several threads, which begin it together.
template <class Work>
void on_threads(Work&& work) {
    std::atomic<int> here = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < num_threads; ++t)
        threads.emplace_back([&, t] {
            ++here;
            while (here < num_threads) std::this_thread::yield();
            work(t);
        });
    for (std::thread& thread : threads) thread.join();
}

TEST(FirstUse, IsWorkedOutOnceForAllThreads) {
    for (int round = 0; round < 200; ++round) {
        FirstUse<std::string> text;
        EXPECT_FALSE(text.is_known());
        std::atomic<int> made = 0;
        std::vector<const std::string*> seen(num_threads);
        on_threads([&](int t) {
            seen[static_cast<std::size_t>(t)] = &text.get([&] {
                ++made;
                return std::string(100, 'x');
            });
        });
        EXPECT_EQ(made, 1);
        EXPECT_TRUE(text.is_known());
        for (const std::string* one : seen) {
            EXPECT_EQ(one, seen.front());
            EXPECT_EQ(*one, std::string(100, 'x'));
        }
    }
}

TEST(FirstUse, IsTriedAgainWhereItFailed) {
    FirstUse<int> number;
    EXPECT_THROW(number.get([]() -> int { throw std::runtime_error("no"); }), std::runtime_error);
    EXPECT_FALSE(number.is_known());
    EXPECT_EQ(number.get([] { return 7; }), 7);
    EXPECT_EQ(number.get([] { return 8; }), 7);
}

/// A ring: each block sends its first column to the next one.
MotionPlan ring(std::int64_t blocks) {
    std::vector<Region> regions;
    datamover::Map owners;
    for (std::int64_t b = 0; b < blocks; ++b) {
        regions.emplace_back(Point{b, 0}, Point{b + 1, 4});
        owners.push_back(b);
    }
    const FloorPlan plan(regions, owners, blocks);
    MotionPlan moves(plan, plan);
    for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t next = (b + 1) % blocks;
        moves.add_section(b, Region(Point{b, 0}, Point{b + 1, 1}), next,
                          Region(Point{next, 0}, Point{next + 1, 1}));
    }
    return moves;
}

/// Plans of few terms are looked through, longer ones have an index; threads ask both at once.
TEST(FirstUse, ThreadsThatAskAPlanAtOnceAreToldTheSame) {
    for (const std::int64_t blocks : {2, 7, 8, 9, 64}) {
        const MotionPlan plan = ring(blocks);
        on_threads([&](int t) {
            const std::int64_t rank = t % blocks;
            const auto sent = plan.outgoing(rank), received = plan.incoming(rank);
            ASSERT_EQ(sent.size(), 1u);
            ASSERT_EQ(received.size(), 1u);
            EXPECT_EQ(sent[0].rank, (rank + 1) % blocks);
            EXPECT_EQ(received[0].rank, (rank + blocks - 1) % blocks);
        });
    }
}

}  // namespace

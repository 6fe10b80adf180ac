// SPDX-License-Identifier: BSD-3-Clause
// Consumers: steps arrive as they were sent, whichever thread reads the connections, and the wait
// ends when it should.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "datamover/block_cyclic.hpp"
#include "datamover/error.hpp"
#include "stream/receiver/consumer.hpp"
#include "stream/sender/producer.hpp"

namespace datamover::stream {
namespace {

constexpr double limit_seconds = 60;

class Interrupted : public std::exception, public Interruption {};

/// A process alone, interrupted where it waits.
class Alone : public Together {
public:
    std::atomic<bool> is_interrupted{false};
    std::atomic<int> looks{0};
    std::function<void()> at_look;  ///< as a signal handler

    void look_around() override {
        ++looks;
        if (is_interrupted) throw Interrupted();
        if (at_look) at_look();
    }
    std::chrono::milliseconds look_time() const override {
        return at_look ? std::chrono::milliseconds(0) : Together::look_time();
    }
};

struct Way {
    std::int64_t elems = 0, pathways = 1;
    bool shared_memory = true;
};

/// Both ends of a stream of one array.
class StreamConsumer : public ::testing::TestWithParam<Way> {
protected:
    static Layout layout_of(std::int64_t elems) { return BlockCyclic({elems}, "(block)", 1); }
    std::int64_t elems() const { return GetParam().elems; }
    static double value(std::int64_t step, std::int64_t index) {
        return static_cast<double>(1000 * step + index);
    }
    SentPart part(const std::vector<double>& values) const {
        return {layout_,   reinterpret_cast<const std::byte*>(values.data()),
                &memory_,  {0, 8 * elems()},
                "\"<f8\"", 8};
    }
    void send(std::int64_t step) {
        std::vector<double> values(static_cast<std::size_t>(elems()));
        for (std::int64_t n = 0; n < elems(); ++n)
            values[static_cast<std::size_t>(n)] = value(step, n);
        producer_.send("u", part(values), step);
    }
    void subscribe() { consumer_.subscribe({{"u", layout_, "\"<f8\""}}); }
    /// The number of the next step, whose values are right; -1 at the end.
    std::int64_t take() {
        const ArrivedStep* const step = consumer_.next(limit_seconds);
        if (step == nullptr) return -1;
        const std::int64_t number = step->number;
        std::vector<double> values(static_cast<std::size_t>(elems()), -1.0);
        consumer_.unpack("u",
                         {reinterpret_cast<std::byte*>(values.data()), &memory_, {0, 8 * elems()}});
        consumer_.taken();
        for (std::int64_t n = 0; n < elems(); ++n)
            EXPECT_EQ(values[static_cast<std::size_t>(n)], value(number, n));
        return number;
    }
    std::uint64_t step_bytes() const { return 8 * static_cast<std::uint64_t>(elems()); }

    const Layout layout_ = layout_of(elems());
    const MemoryLayout memory_ = dense_memory(layout_, 0, 8);
    const std::shared_ptr<Alone> alone_ = std::make_shared<Alone>();
    Producer producer_{std::make_shared<Together>(),
                       "tcp://127.0.0.1:0",
                       {.pathways = GetParam().pathways,
                        .queue_steps = 8,
                        .consumers = 1,
                        .timeout_seconds = limit_seconds,
                        .shared_memory = GetParam().shared_memory}};
    Consumer consumer_{alone_, producer_.address(), {.ahead = 4}};
};

TEST_P(StreamConsumer, WhoWaitsGetsEveryStep) {
    subscribe();
    std::thread sending([this] {
        for (std::int64_t step = 0; step < 50; ++step) send(step);
        producer_.close(limit_seconds);
    });
    for (std::int64_t step = 0; step < 50; ++step) EXPECT_EQ(take(), step);
    EXPECT_EQ(take(), -1);
    EXPECT_EQ(take(), -1);
    sending.join();
    EXPECT_EQ(consumer_.counters().bytes_received, 50 * step_bytes());
    EXPECT_EQ(consumer_.counters().checksum_errors, 0u);
}

TEST_P(StreamConsumer, WhatWasGrantedComesWhileTheProgramIsAway) {
    subscribe();
    send(0);
    EXPECT_EQ(take(), 0);
    for (std::int64_t step = 1; step <= 4; ++step) send(step);
    // Nobody calls `next` meanwhile.
    while (consumer_.counters().bytes_received < 5 * step_bytes()) std::this_thread::yield();
    for (std::int64_t step = 1; step <= 4; ++step) EXPECT_EQ(take(), step);
}

TEST_P(StreamConsumer, AnInterruptedWaitLosesNothing) {
    subscribe();
    send(0);
    EXPECT_EQ(take(), 0);
    alone_->is_interrupted = true;
    EXPECT_THROW(consumer_.next(limit_seconds), Interrupted);
    alone_->is_interrupted = false;
    send(1);
    EXPECT_EQ(take(), 1);
}

TEST_P(StreamConsumer, ClosingEndsAWaitInAnotherThread) {
    subscribe();
    send(0);
    EXPECT_EQ(take(), 0);
    const int looks = alone_->looks;
    std::thread waiting([this] {
        try {
            consumer_.next(std::nullopt);
            ADD_FAILURE() << "a step that was not sent";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::invalid_state);
        }
    });
    while (alone_->looks == looks) std::this_thread::yield();  // it waits
    consumer_.close();
    waiting.join();
    EXPECT_THROW(consumer_.next(limit_seconds), Error);
}

TEST_P(StreamConsumer, ClosingWhileItConnectsEndsTheWait) {
    subscribe();
    send(0);
    alone_->at_look = [this] { consumer_.close(); };
    try {
        consumer_.next(limit_seconds);
        ADD_FAILURE() << "a step of a closed consumer";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_state) << error.what();
    }
    consumer_.close();
}

TEST_P(StreamConsumer, AForkedProcessLeavesTheConnectionToItsParent) {
    subscribe();
    send(0);
    EXPECT_EQ(take(), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        int refused = 1;
        try {
            consumer_.next(limit_seconds);
        } catch (const Error& error) {
            refused = error.code() == ErrorCode::invalid_state ? 0 : 2;
        }
        consumer_.close();
        ::_exit(refused);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    send(1);
    EXPECT_EQ(take(), 1);
}

TEST_P(StreamConsumer, CallsInAWrongOrderAreRefused) {
    const auto code_of = [](const auto& call) {
        try {
            call();
        } catch (const Error& error) {
            return error.code();
        }
        return ErrorCode{};
    };
    EXPECT_EQ(code_of([&] { consumer_.next(1.0); }), ErrorCode::invalid_state);
    EXPECT_EQ(code_of([&] { consumer_.subscribe({}); }), ErrorCode::invalid_argument);
    subscribe();
    EXPECT_EQ(code_of([&] { subscribe(); }), ErrorCode::invalid_state);
    consumer_.taken();  // of no step
    send(0);
    ASSERT_TRUE(consumer_.next(limit_seconds));
    EXPECT_EQ(code_of([&] { consumer_.unpack("v", {}); }), ErrorCode::invalid_state);
    const auto again = consumer_.next(1.0);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->number, 0);  // the same step: it was not taken
    consumer_.taken();
    consumer_.taken();
    EXPECT_EQ(code_of([&] { consumer_.next(0.01); }), ErrorCode::timeout);
    consumer_.fail(Error(ErrorCode::no_memory, "of the program's own"));
    EXPECT_EQ(code_of([&] { consumer_.next(1.0); }), ErrorCode::no_memory);
}

INSTANTIATE_TEST_SUITE_P(Ways, StreamConsumer,
                         ::testing::Values(Way{100, 1, true}, Way{100, 3, false},
                                           Way{300'000, 1, true}, Way{300'000, 2, false}));

}  // namespace
}  // namespace datamover::stream

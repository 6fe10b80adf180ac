// SPDX-License-Identifier: BSD-3-Clause
// Incoming steps: connections that end and steps that arrive twice, in any order of the events.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "datamover/block_cyclic.hpp"
#include "datamover/error.hpp"
#include "datamover/floor_plan.hpp"
#include "memory/crc32c.hpp"
#include "stream/receiver/incoming_steps.hpp"
#include "stream/wire/plan_between.hpp"

namespace datamover::stream {
namespace {

constexpr std::size_t message_bytes = 48;

/// Both ends of a connection.
struct LinkEnds {
    LinkEnds() {
        int sockets[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
        here = std::make_shared<Connection>(sockets[0]);
        there = std::make_shared<Connection>(sockets[1]);
    }
    std::shared_ptr<Connection> here;
    std::shared_ptr<Connection> there;
};

/// A process that wants an array of one sending process, by hand at both ends.
struct Receiver {
    explicit Receiver(bool is_pressed = false, int producers = 1, int processes = 1)
        : line(BlockCyclic({6}, "(block)", processes)) {
        steps.want({{"u", line, ""}}, 4, {true, is_pressed, true});
        say({.type = Frame::Type::array,
             .array = {0, "u", "\"<f8\"", layout_of_last(producers), 8}});
        say_step(0);
    }
    void say(Frame frame) const { send_frame(*control.there, std::move(frame)); }
    void say_step(std::int64_t place) const {
        say({.type = Frame::Type::step, .place = place, .number = 10 + place, .numbers = {0}});
    }
    void say_end(std::int64_t count) const { say({.type = Frame::Type::end, .steps = count}); }
    void send(std::uint64_t place) const {
        const std::vector<std::byte> message(message_bytes);
        const ChunkHeader header{.checksum = memory::crc32c(message),
                                 .place = place,
                                 .bytes = message_bytes,
                                 .number = 10 + static_cast<std::int64_t>(place)};
        data.there->send(bytes_of_header(sealed(header)));
        data.there->send(message);
    }
    /// Takes in what has come, which is said to come on both connections.
    void take_in() {
        const std::vector<pollfd> come{{control.here->socket(), POLLIN, POLLIN},
                                       {data.here->socket(), POLLIN, POLLIN}};
        steps.take_in(come, true);
    }
    /// Of several sending processes the last holds all.
    Layout layout_of_last(int producers) const {
        return FloorPlan({Region({0}, {6})}, {producers - 1}, producers);
    }
    /// The places of which is said over the control connection that they were taken.
    std::vector<std::int64_t> said_done() {
        std::vector<std::int64_t> places;
        for (const Frame& said : control_there.receive(max_frame_bytes))
            if (said.type == Frame::Type::done) places.push_back(said.place);
        return places;
    }
    /// Before which place all was taken, as is said last over the data connection.
    std::uint64_t said_taken() const {
        std::array<std::byte, 1 << 12> room{};
        const auto come = data.there->receive(room);
        if (!come) return 0;
        return header_at<Grant>(std::span(room).first(*come).last(sizeof(Grant))).taken;
    }
    /// The number of the next step, which is taken.
    std::int64_t take() {
        const std::optional<ArrivedStep> step = steps.next();
        if (!step) return no_number;
        steps.taken(*step);
        return step->number;
    }

    const Layout line;
    const LinkEnds control, data;
    FrameLink link{control.here};
    FrameLink control_there{control.there};
    ReceptionCounters counters;
    IncomingSteps steps{
        link, 0, [this](int producer) {
            IncomingSteps::Links links;
            links.push_back(std::make_unique<DataReceiver>(data.here, producer, 0, 1, counters));
            return links;
        }};
};

TEST(StreamIncoming, AConnectionThatEndsBetweenStepsIsLost) {
    Receiver receiver;
    receiver.send(0);
    receiver.take_in();  // connects
    receiver.take_in();
    EXPECT_EQ(receiver.take(), 10);
    EXPECT_FALSE(receiver.steps.lost());
    receiver.data.there->end();
    receiver.take_in();
    ASSERT_TRUE(receiver.steps.lost());
    EXPECT_EQ(receiver.steps.lost()->code(), ErrorCode::peer_failed);
}

TEST(StreamIncoming, AConnectionThatEndsBeforeTheEndIsSaidIsNone) {
    Receiver receiver;
    for (const std::uint64_t place : {0, 1}) receiver.send(place);
    receiver.data.there->end();
    receiver.take_in();
    receiver.take_in();
    receiver.take_in();
    EXPECT_TRUE(receiver.steps.lost());
    receiver.say_end(2);
    receiver.take_in();
    EXPECT_FALSE(receiver.steps.lost());
    EXPECT_EQ(receiver.take(), 10);
    EXPECT_EQ(receiver.take(), 11);
    EXPECT_TRUE(receiver.steps.is_over());
}

TEST(StreamIncoming, StepsThatAreMissingAtTheEndCountAsDropped) {
    Receiver receiver;
    receiver.send(0);
    receiver.data.there->end();
    receiver.take_in();
    receiver.take_in();
    receiver.take_in();
    receiver.say_end(3);
    receiver.take_in();
    EXPECT_EQ(receiver.take(), 10);
    EXPECT_TRUE(receiver.steps.is_over());
    EXPECT_EQ(receiver.steps.dropped(), 2u);
}

TEST(StreamIncoming, StepsThatAreMissingAtTheEndAndThatOtherProcessesMayHaveAreAnError) {
    Receiver receiver(false, 1, 2);
    receiver.data.there->end();
    receiver.take_in();
    receiver.take_in();
    receiver.say_end(1);
    try {
        receiver.take_in();
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
    }
}

TEST(StreamIncoming, AStepIsAnnouncedOnce) {
    for (const bool is_taken : {false, true}) {
        Receiver receiver;
        receiver.send(0);
        receiver.take_in();
        receiver.take_in();
        ASSERT_TRUE(receiver.steps.has_ready());
        if (is_taken) receiver.take();
        receiver.say_step(0);
        try {
            receiver.take_in();
            FAIL();
        } catch (const Error& error) {
            EXPECT_STREQ(error.what(), "the stream announced step 0, for which it has no credit");
        }
    }
}

TEST(StreamIncoming, WhatWasTakenIsSaidOverTheDataConnectionToTheFirstSendingProcess) {
    for (const bool is_pressed : {false, true}) {
        for (const int producers : {1, 2}) {
            Receiver receiver(is_pressed, producers);
            receiver.send(0);
            receiver.take_in();  // connects
            receiver.take_in();
            EXPECT_EQ(receiver.take(), 10);
            receiver.steps.say_taken();
            EXPECT_EQ(receiver.said_taken(), 1u);
            const bool is_said_again = is_pressed || producers == 2;
            EXPECT_EQ(receiver.said_done(),
                      is_said_again ? std::vector<std::int64_t>{0} : std::vector<std::int64_t>());
        }
    }
}

TEST(StreamIncoming, WhatIsTakenAfterTheDataConnectionsHaveEndedIsSaidAllTheSame) {
    Receiver receiver;
    receiver.send(0);
    receiver.send(1);
    receiver.take_in();
    receiver.take_in();
    EXPECT_EQ(receiver.take(), 10);
    receiver.steps.say_taken();
    EXPECT_TRUE(receiver.said_done().empty());
    receiver.steps.end_data();
    EXPECT_EQ(receiver.take(), 11);
    receiver.steps.say_taken();
    EXPECT_EQ(receiver.said_done(), std::vector<std::int64_t>{1});
}

}  // namespace
}  // namespace datamover::stream

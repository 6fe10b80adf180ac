// SPDX-License-Identifier: BSD-3-Clause
// Test peer of a stream: acts as a process of a consumer.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "datamover/layout.hpp"
#include "stream/wire/connection.hpp"
#include "stream/wire/frames.hpp"
#include "stream/wire/plan_between.hpp"

namespace datamover::stream {

/// A connection to a stream that listens at a port of the loopback.
class Stranger {
public:
    explicit Stranger(int port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address),
                  0);
        connection_ = std::make_unique<Connection>(socket);
    }

    /// The next frame. Throws where the connection ends.
    Frame heard() const {
        return read_frame(*connection_, max_frame_bytes, Clock::now() + std::chrono::seconds(60));
    }
    void say(Frame frame) const { send_frame(*connection_, std::move(frame)); }
    /// Comes in as the first process of a consumer; what it is welcomed with.
    Frame come_in(const std::string& token, int nprocs = 1) const {
        introduce(token, {.type = Frame::Type::control, .nprocs = nprocs});
        return heard();
    }
    /// Says who it is, and that it knows the token.
    void introduce(const std::string& token, Frame words) const {
        EXPECT_EQ(heard().version, protocol_version);
        words.token = token;
        say(std::move(words));
    }
    void grant(std::int64_t steps) const { say({.type = Frame::Type::credit, .steps = steps}); }
    /// Says that it has taken all steps up to this place.
    void say_done(std::int64_t place) const { say({.type = Frame::Type::done, .place = place}); }
    /// Requests arrays, each in a layout, grants a step, and waits until the stream has confirmed
    /// it; the consumer's other processes have granted theirs.
    void subscribe(const std::vector<std::pair<std::string, Layout>>& wanted,
                   bool hears_by_messages = false) const {
        Frame words{.type = Frame::Type::subscribe, .tells_by_messages = hears_by_messages};
        for (const auto& [name, layout] : wanted) words.wanted.push_back({name, layout});
        say(std::move(words));
        grant(1);
        EXPECT_EQ(heard().type, Frame::Type::subscribed);
    }

private:
    std::unique_ptr<Connection> connection_;
};

}  // namespace datamover::stream

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
    Value heard() const {
        return read_frame(*connection_, max_frame_bytes, Clock::now() + std::chrono::seconds(60));
    }
    void say(const Record& words) const {
        const std::string frame = frame_of(words.bytes());
        connection_->send(std::as_bytes(std::span(frame.data(), frame.size())));
    }
    /// Comes in as the first process of a consumer; what it is welcomed with.
    Value come_in(const std::string& token, int nprocs = 1) const {
        introduce(token, Record().add("role", "control").add("nprocs", nprocs));
        return heard();
    }
    /// Says who it is, and that it knows the token.
    void introduce(const std::string& token, Record words) const {
        EXPECT_EQ(heard().number("datamover_stream"), protocol_version);
        say(words.add("token", token));
    }
    /// Requests arrays, each in a layout, grants a step, and waits until the stream has confirmed
    /// it; the consumer's other processes have granted theirs.
    void subscribe(const std::vector<std::pair<std::string, Layout>>& wanted,
                   bool hears_by_messages = false) const {
        ValueList words;
        for (const auto& [name, layout] : wanted)
            words.add(ValueList().add(name).add(bytes_of_layout(layout)));
        say(Record()
                .add("type", "subscribe")
                .add("arrays", words)
                .add("hears_by_messages", hears_by_messages));
        say(Record().add("type", "credit").add("steps", 1));
        EXPECT_EQ(heard().name("type"), "subscribed");
    }

private:
    std::unique_ptr<Connection> connection_;
};

}  // namespace datamover::stream

// SPDX-License-Identifier: BSD-3-Clause
// Connections within this machine: not paced, and usable on systems without that option.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <memory>
#include <string>

#include "stream/wire/connection.hpp"

namespace {

/// Whether the system refuses to control congestion otherwise.
std::atomic<bool> refuses{false};

}  // namespace

/// Stands before that of the C library.
extern "C" int setsockopt(int socket, int level, int option, const void* value,
                          socklen_t bytes) noexcept {
    using Function = int (*)(int, int, int, const void*, socklen_t);
    static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "setsockopt"));
    if (level == IPPROTO_TCP && option == TCP_CONGESTION && refuses) {
        errno = EPERM;
        return -1;
    }
    return real(socket, level, option, value, bytes);
}

namespace datamover::stream {
namespace {

using Name = std::array<char, 16>;

/// Another control of congestion than the one that does not pause; empty where there is none.
std::string other_control() {
    std::ifstream available("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    std::string name;
    while (available >> name)
        if (name != "reno") return name;
    return "";
}

/// Both ends of a connection from one address of the loopback to another.
struct ConnectedEnds {
    ConnectedEnds(const char* from, const char* to) {
        const auto at = [](const char* host) {
            sockaddr_in address{};
            address.sin_family = AF_INET;
            ::inet_pton(AF_INET, host, &address.sin_addr);
            return address;
        };
        const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in here = at(from), there = at(to);
        socklen_t bytes = sizeof there;
        EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&there), bytes), 0);
        EXPECT_EQ(::listen(listener, 1), 0);
        ::getsockname(listener, reinterpret_cast<sockaddr*>(&there), &bytes);
        const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
        EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&there), bytes), 0);
        first = std::make_unique<Connection>(socket);
        second = std::make_unique<Connection>(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
        ::close(listener);
    }
    void control_by(const std::string& name) const {
        for (const auto* end : {first.get(), second.get()})
            EXPECT_EQ(::setsockopt(end->socket(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                                   static_cast<socklen_t>(name.size())),
                      0);
    }
    static std::string control_of(const Connection& end) {
        Name name{};
        socklen_t bytes = name.size();
        EXPECT_EQ(::getsockopt(end.socket(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes), 0);
        return name.data();
    }
    /// What one end sends the other gets.
    void expect_open() const {
        const std::array<std::byte, 3> sent{std::byte{1}, std::byte{2}, std::byte{3}};
        std::array<std::byte, 3> came{};
        first->send(sent);
        second->read(came, Clock::now() + std::chrono::minutes(1));
        EXPECT_EQ(came, sent);
    }

    std::unique_ptr<Connection> first, second;
};

TEST(StreamConnection, IsNotPacedBetweenEndsOfOneAddress) {
    for (const char* address : {"127.0.0.1", "127.0.0.2"}) {
        const ConnectedEnds ends(address, address);
        if (const std::string other = other_control(); !other.empty()) ends.control_by(other);
        for (const auto* end : {ends.first.get(), ends.second.get()}) {
            end->look_after();
            EXPECT_EQ(ConnectedEnds::control_of(*end), "reno");
        }
        ends.expect_open();
    }
}

TEST(StreamConnection, BetweenOthersIsLeftAsItIs) {
    const std::string other = other_control();
    if (other.empty()) GTEST_SKIP() << "the system controls congestion in one way alone";
    const ConnectedEnds ends("127.0.0.1", "127.0.0.2");
    ends.control_by(other);
    for (const auto* end : {ends.first.get(), ends.second.get()}) {
        end->look_after();
        EXPECT_EQ(ConnectedEnds::control_of(*end), other);
    }
}

TEST(StreamConnection, WorksWhereTheSystemRefusesThat) {
    const ConnectedEnds ends("127.0.0.1", "127.0.0.1");
    const std::string before = ConnectedEnds::control_of(*ends.first);
    refuses = true;
    EXPECT_NO_THROW(ends.first->look_after());
    EXPECT_NO_THROW(ends.second->look_after());
    refuses = false;
    EXPECT_EQ(ConnectedEnds::control_of(*ends.first), before);
    ends.expect_open();
}

}  // namespace
}  // namespace datamover::stream

// SPDX-License-Identifier: BSD-3-Clause
// Connecting to an address, with a timeout.
#include "stream/receiver/dialing.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include "geometry/make_error.hpp"
#include "stream/wire/frames.hpp"

namespace datamover::stream {
namespace {

constexpr std::chrono::milliseconds redial_time{50};
/// A connection that takes nothing for so long has failed.
constexpr int stalled_seconds = 600;

std::chrono::milliseconds time_until(Clock::time_point until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    return std::max(left, std::chrono::milliseconds(0));
}

/// In tenths.
double seconds_since(Clock::time_point begin) {
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    return static_cast<double>((passed.count() + 50) / 100) / 10;
}

/// Before somebody is asked again who was not there.
void rest(const Look& look) {
    const Clock::time_point end = Clock::now() + redial_time;
    for (auto left = time_until(end); left.count() > 0; left = time_until(end)) {
        look();
        std::this_thread::sleep_for(look.until_next(left));
    }
}

/// Where a port is in the range that the system takes its own from, a connection to nobody can
/// meet itself.
bool is_its_own_end(int socket) {
    sockaddr_storage here{}, there{};
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    return ::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &here_bytes) == 0 &&
           ::getpeername(socket, reinterpret_cast<sockaddr*>(&there), &there_bytes) == 0 &&
           here_bytes == there_bytes && std::memcmp(&here, &there, here_bytes) == 0;
}

/// Connects a socket that does not block; 0 or the error's number.
int try_to_connect(int socket, const sockaddr* address, socklen_t bytes, Clock::time_point until,
                   const Look& look) {
    if (::connect(socket, address, bytes) != 0) {
        if (errno != EINPROGRESS && errno != EINTR) return errno;
        while (true) {
            look();
            pollfd waiting{socket, POLLOUT, 0};
            const auto left = time_until(until);
            const auto time = look.until_next(std::min(left, look_time));
            if (::poll(&waiting, 1, static_cast<int>(time.count())) > 0) break;
            if (left.count() == 0) return ETIMEDOUT;
        }
        int error = 0;
        socklen_t length = sizeof error;
        if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
        if (error != 0) return error;
    }
    return is_its_own_end(socket) ? ECONNREFUSED : 0;
}

/// A connection that waits when it sends, as those that were accepted; null with the error's
/// number.
std::shared_ptr<Connection> connected(int family, const sockaddr* address, socklen_t bytes,
                                      Clock::time_point until, const Look& look, int& error) {
    const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) {
        error = errno;
        return nullptr;
    }
    auto connection = std::make_shared<Connection>(socket);
    error = try_to_connect(socket, address, bytes, until, look);
    if (error != 0) return nullptr;
    ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) & ~O_NONBLOCK);
    return connection;
}

std::shared_ptr<Connection> connected(const Address& address, Clock::time_point until,
                                      const Look& look, int& error) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* first = nullptr;
    const int unknown =
        ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &first);
    if (unknown != 0)
        throw make_error(ErrorCode::io, address.text(), ": ", ::gai_strerror(unknown));
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(first, &::freeaddrinfo);
    for (const addrinfo* one = first; one != nullptr; one = one->ai_next)
        if (auto connection =
                connected(one->ai_family, one->ai_addr, one->ai_addrlen, until, look, error))
            return connection;
    return nullptr;
}

/// Says who this is.
void introduce(const Connection& connection, const std::string& where, Record words,
               const Dialing& dialing, Clock::time_point until) {
    connection.look_after();
    connection.limit_sending(stalled_seconds);
    const Value greeting = read_frame(connection, max_greeting_bytes, until, dialing.look);
    if (greeting.number("datamover_stream") != protocol_version)
        throw make_error(ErrorCode::io, where,
                         " speaks another version of the protocol; install the same version of "
                         "datamover at both ends");
    words.add("token", dialing.token(connection));
    const std::string frame = frame_of(words.bytes());
    connection.send(std::as_bytes(std::span(frame.data(), frame.size())));
}

}  // namespace

Clock::time_point greeting_end(const Deadline& deadline) {
    const auto end = Clock::now() + std::chrono::milliseconds(greeting_milliseconds.load());
    return deadline ? std::min(*deadline, end) : end;
}

std::shared_ptr<Connection> dial(const Address& address, const Record& words,
                                 const Dialing& dialing, const Deadline& deadline, bool again) {
    const Clock::time_point begin = Clock::now();
    while (true) {
        int error = 0;
        const auto connection = connected(address, greeting_end(deadline), dialing.look, error);
        if (connection != nullptr) {
            // The first sending process listens before the others have come to open the stream.
            introduce(*connection, address.text(), words, dialing,
                      again ? deadline.value_or(Clock::time_point::max()) : greeting_end(deadline));
            return connection;
        }
        if (error == ECONNRESET)
            throw make_error(ErrorCode::peer_failed,
                             "the connection broke: ", std::strerror(error));
        if (error != ECONNREFUSED && error != ETIMEDOUT)
            throw make_error(ErrorCode::io, address.text(), ": ", std::strerror(error));
        if (!again || (deadline && Clock::now() + redial_time >= *deadline))
            throw make_error(ErrorCode::timeout, "no stream at ", address.text(), " after ",
                             seconds_since(begin), " s; is the sending program running?");
        rest(dialing.look);
    }
}

std::shared_ptr<Connection> dial_local(const std::string& name, const Record& words,
                                       const Dialing& dialing) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (name.size() >= sizeof address.sun_path) return nullptr;
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // which begins with a 0
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    int error = 0;
    const auto connection = connected(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), bytes,
                                      greeting_end(std::nullopt), dialing.look, error);
    if (connection == nullptr) return nullptr;
    introduce(*connection, "the local connection", words, dialing, greeting_end(std::nullopt));
    return connection;
}

}  // namespace datamover::stream

// SPDX-License-Identifier: BSD-3-Clause
// How do the system's sockets do what connections need? Without signals, and with a limit in time.
#include "stream/connection.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "datamover/error.hpp"

namespace datamover::stream {
namespace {

[[noreturn]] void fail(int number) {
    if (number == EAGAIN || number == EWOULDBLOCK)
        throw Error(ErrorCode::timeout, "the other end of the connection takes nothing");
    throw Error(ErrorCode::peer_failed,
                std::string("the connection broke: ") + std::strerror(number));
}

bool family_is_local(int socket) {
    int family = 0;
    socklen_t bytes = sizeof family;
    return ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &bytes) == 0 && family == AF_UNIX;
}

/// sendmsg, again where a signal interrupts it.
std::size_t send_once(int socket, const msghdr& message) {
    while (true) {
        const ssize_t count = ::sendmsg(socket, &message, MSG_NOSIGNAL);
        if (count >= 0) return static_cast<std::size_t>(count);
        if (errno != EINTR) fail(errno);
    }
}

iovec piece_of(std::span<const std::byte> bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

Connection::Connection(int socket, int stalled_seconds)
    : socket_(socket), is_local_(family_is_local(socket)) {
    const int flags = ::fcntl(socket, F_GETFL);
    const timeval limit{stalled_seconds, 0};
    if (flags < 0 || ::fcntl(socket, F_SETFL, flags & ~O_NONBLOCK) != 0 ||
        ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) {
        const int number = errno;
        ::close(socket);
        fail(number);
    }
}

Connection::~Connection() {
    ::close(socket_);
}

void Connection::send(std::span<const std::byte> header, std::span<const std::byte> body) const {
    while (!header.empty() || !body.empty()) {
        std::array<iovec, 2> pieces{piece_of(header), piece_of(body)};
        msghdr message{};
        message.msg_iov = pieces.data();
        message.msg_iovlen = pieces.size();
        const std::size_t count = send_once(socket_, message);
        const std::size_t of_header = std::min(count, header.size());
        header = header.subspan(of_header);
        body = body.subspan(count - of_header);
    }
}

void Connection::send_with_file(std::span<const std::byte> bytes, int file) const {
    iovec piece = piece_of(bytes);
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof file)> rights{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = rights.data();
    message.msg_controllen = rights.size();
    cmsghdr* const control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(control), &file, sizeof file);
    send(bytes.subspan(send_once(socket_, message)));
}

std::optional<std::span<std::byte>> Connection::receive(std::span<std::byte> into) const {
    while (true) {
        const ssize_t count = ::recv(socket_, into.data(), into.size(), MSG_DONTWAIT);
        if (count > 0) return into.first(static_cast<std::size_t>(count));
        if (count == 0) throw Error(ErrorCode::peer_failed, "the other end closed the connection");
        if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
        if (errno != EINTR) fail(errno);
    }
}

void Connection::end() const {
    ::shutdown(socket_, SHUT_RDWR);
}

}  // namespace datamover::stream

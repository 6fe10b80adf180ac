// SPDX-License-Identifier: BSD-3-Clause
// Connections over the system's sockets, without signals and with timeouts.
#include "stream/wire/connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>

#include "datamover/error.hpp"
#include "geometry/make_error.hpp"
#include "stream/wire/endpoints.hpp"

namespace datamover::stream {

namespace {

/// Seconds without an answer until a silent machine is asked, between questions, and how many.
constexpr int silent_seconds = 30, question_seconds = 10, questions = 3;

[[noreturn]] void fail(int number) {
    throw make_error(ErrorCode::peer_failed, "the connection broke: ", std::strerror(number));
}

bool family_is_local(int socket) {
    int family = 0;
    socklen_t bytes = sizeof family;
    return ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &bytes) == 0 && family == AF_UNIX;
}

bool set_option(int socket, int level, int option, const auto& value) {
    return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
}

constexpr std::size_t files_at_once = 4;

iovec piece_of(std::span<const std::byte> bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

/// Takes the file descriptors out of a message that has come.
void keep_files(msghdr& message, std::deque<Descriptor>& files) {
    for (cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr;
         control = CMSG_NXTHDR(&message, control)) {
        if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
        for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= control->cmsg_len;
             at += sizeof(int)) {
            int file = -1;
            std::memcpy(&file, reinterpret_cast<const std::byte*>(control) + at, sizeof file);
            files.emplace_back(file);
        }
    }
}

}  // namespace

std::chrono::milliseconds time_until(Clock::time_point end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    return std::max(left, std::chrono::milliseconds(0));
}

bool wait_for(int socket, short events, Clock::time_point end, const Look& look) {
    while (true) {
        look.around();
        pollfd waiting{socket, events, 0};
        // Before poll: this process may have been kept from running until what came was late.
        const auto left = time_until(end);
        if (::poll(&waiting, 1, static_cast<int>(std::min(left, look.time).count())) > 0)
            return true;
        if (left.count() == 0) return false;
    }
}

std::uint64_t max_files() {
    rlimit limit{};
    const bool is_limited =
        ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return is_limited ? limit.rlim_cur : std::numeric_limits<std::uint64_t>::max();
}

bool may_keep(int file) {
    const std::uint64_t most = max_files();
    // The system gives the lowest one that is free.
    return static_cast<std::uint64_t>(file) < most - most / 4;
}

Descriptor::~Descriptor() {
    if (number_ >= 0) ::close(number_);
}

Event::Event(bool serves_connection) : file_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (file() < 0 || (serves_connection && !may_keep(file())))
        throw Error(ErrorCode::io, "cannot wait for a connection: too many files are open");
}

void Event::set() const {
    // Fails only where so much was written that it is awake.
    [[maybe_unused]] const int result = ::eventfd_write(file(), 1);
}

std::optional<short> Event::wait(int socket, short events, std::chrono::milliseconds time) const {
    std::array<pollfd, 2> waiting{pollfd{file(), POLLIN, 0}, pollfd{socket, events, 0}};
    const int found = ::poll(waiting.data(), waiting.size(), static_cast<int>(time.count()));
    if (found < 0 && errno != EINTR)
        throw make_error(ErrorCode::peer_failed,
                         "waiting for a connection failed: ", std::strerror(errno));
    eventfd_t count = 0;
    if (waiting[0].revents != 0) ::eventfd_read(file(), &count);
    if (found == 0) return std::nullopt;
    return waiting[1].revents;
}

Connection::Connection(int socket) : socket_(socket), is_local_(family_is_local(socket)) {}

bool Connection::is_of_this_user() const {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    return is_local_ && ::getsockopt(socket(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
           peer.uid == ::geteuid();
}

void Connection::look_after() const {
    if (is_local_) return;
    const auto set = [this](int level, int option, int value) {
        if (!set_option(socket(), level, option, value)) fail(errno);
    };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, silent_seconds);
    set(IPPROTO_TCP, TCP_KEEPINTVL, question_seconds);
    set(IPPROTO_TCP, TCP_KEEPCNT, questions);
    // Others, as BBR, guess how much a network takes and wait in between: up to five times as long
    // as the other end needs.
    constexpr std::string_view unpaced = "reno";
    if (loops_back())
        ::setsockopt(socket(), IPPROTO_TCP, TCP_CONGESTION, unpaced.data(), unpaced.size());
}

bool Connection::loops_back() const {
    const auto here = own_end(socket()), there = peer_end(socket());
    return here && there && here->host == there->host;
}

void Connection::limit_kept(int bytes) const {
    set_option(socket(), SOL_SOCKET, SO_SNDBUF, bytes);
}

void Connection::send(std::span<const std::byte> bytes, Clock::time_point deadline) const {
    while (!bytes.empty()) {
        const std::size_t count = send_now(bytes);
        bytes = bytes.subspan(count);
        if (count == 0 && !wait_for(socket(), POLLOUT, deadline))
            throw Error(ErrorCode::timeout,
                        "the other end of the connection accepted no data in time");
    }
}

std::size_t Connection::send_now(std::span<const std::byte> first,
                                 std::span<const std::byte> second, int file) const {
    std::array<iovec, 2> pieces{piece_of(first), piece_of(second)};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof file)> rights{};
    if (file >= 0) {
        message.msg_control = rights.data();
        message.msg_controllen = rights.size();
        cmsghdr* const control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(sizeof file);
        std::memcpy(CMSG_DATA(control), &file, sizeof file);
    }
    while (true) {
        const ssize_t count = ::sendmsg(socket(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) return static_cast<std::size_t>(count);
        if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
        if (errno != EINTR) fail(errno);
    }
}

std::optional<std::size_t> Connection::receive(std::span<std::byte> first,
                                               std::span<std::byte> second,
                                               std::deque<Descriptor>* files) const {
    std::array<iovec, 2> pieces{piece_of(first), piece_of(second)};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(files_at_once * sizeof(int))> rights;
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    if (files != nullptr && is_local_) {
        message.msg_control = rights.data();
        message.msg_controllen = rights.size();
    }
    while (true) {
        const ssize_t count = ::recvmsg(socket(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (count > 0 && files != nullptr) keep_files(message, *files);
        if (count > 0) return static_cast<std::size_t>(count);
        if (count == 0) throw Error(ErrorCode::peer_failed, "the other end closed the connection");
        if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
        if (errno != EINTR) fail(errno);
    }
}

void Connection::read(std::span<std::byte> into, Clock::time_point deadline,
                      const Look& look) const {
    while (!into.empty()) {
        if (const auto come = receive(into))
            into = into.subspan(*come);
        else if (!wait_for(socket(), POLLIN, deadline, look))
            throw Error(ErrorCode::timeout, "the other end of the connection sent nothing in time");
    }
}

void Connection::end_sending() const {
    ::shutdown(socket(), SHUT_WR);
}

void Connection::end() const {
    ::shutdown(socket(), SHUT_RDWR);
}

bool Link::send(std::span<const std::byte> bytes) {
    const std::lock_guard lock(lock_);
    if (is_broken_) return true;
    const bool is_first = kept_.empty();
    kept_.insert(kept_.end(), bytes.begin(), bytes.end());
    if (is_first) try_to_send();
    return kept_.empty();
}

bool Link::send_more() {
    const std::lock_guard lock(lock_);
    try_to_send();
    return kept_.empty();
}

bool Link::has_unsent() const {
    const std::lock_guard lock(lock_);
    return !kept_.empty();
}

void Link::try_to_send() {
    if (kept_.empty()) return;
    try {
        const std::size_t count = connection_->send_now(kept_);
        kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
    } catch (...) {  // also called by destructors
        is_broken_ = true;
        kept_.clear();
        connection_->end();
    }
}

int awake_poll(std::span<pollfd> waiting, std::chrono::milliseconds time, Clock::time_point end) {
    while (time.count() > 0 && Clock::now() < end) {
        if (const int found = ::poll(waiting.data(), waiting.size(), 0); found != 0) return found;
        ::sched_yield();
    }
    return ::poll(waiting.data(), waiting.size(), static_cast<int>(time.count()));
}

std::thread thread_without_signals(const char* does, std::function<void()> work) {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const std::shared_ptr<void> restore(
        nullptr, [&before](void*) { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); });
    try {
        return std::thread(std::move(work));
    } catch (const std::system_error& error) {
        throw make_error(ErrorCode::io, "cannot start the thread that ", does, ": ", error.what());
    }
}

}  // namespace datamover::stream

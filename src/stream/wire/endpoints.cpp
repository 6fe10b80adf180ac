// SPDX-License-Identifier: BSD-3-Clause
// Parsing of addresses, listening sockets, and connecting to an address, with a timeout.
#include "stream/wire/endpoints.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>

#include "geometry/make_error.hpp"
#include "stream/wire/token.hpp"

namespace datamover::stream {
namespace {

constexpr int backlog = 4096;  ///< or as many as the system allows
constexpr int name_bytes = 16;
constexpr std::string_view scheme = "tcp://";

/// An address as numbers, without asking anybody what a name stands for; nothing for a name. One of
/// version 4 is mapped to version 6.
std::optional<in6_addr> numeric(const std::string& host) {
    in6_addr found{};
    for (const std::string& text : {host, "::ffff:" + host})
        if (::inet_pton(AF_INET6, text.c_str(), &found) == 1) return found;
    return std::nullopt;
}

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// What the system knows of an address. Throws io if it knows nothing.
Found looked_up(const Address& address, int type) {
    addrinfo hints{};
    hints.ai_socktype = type;
    addrinfo* first = nullptr;
    const int error =
        ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &first);
    if (error != 0) throw make_error(ErrorCode::io, address.text(), ": ", ::gai_strerror(error));
    return {first, &::freeaddrinfo};
}

/// The numbers of an address that `get` returns of a socket; nothing of a local socket.
std::optional<Address> numbers_of(int socket, decltype(&::getsockname) get) {
    sockaddr_storage found{};
    socklen_t bytes = sizeof found;
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    auto* const any = reinterpret_cast<sockaddr*>(&found);
    if (get(socket, any, &bytes) != 0 || found.ss_family == AF_UNIX ||
        ::getnameinfo(any, bytes, host.data(), host.size(), port.data(), port.size(),
                      NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return std::nullopt;
    return Address{host.data(), std::stoi(port.data())};
}

/// The address of a local socket under a name without a file, and its bytes.
std::pair<sockaddr_un, socklen_t> local_address(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // It begins with a 0.
    const std::size_t count = std::min(name.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, name.data(), count);
    return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count)};
}

/// The address of this machine at which the others find this process: that from which data goes to
/// the first one.
std::string own_host(const std::string& first_host, int rank) {
    if (rank == 0 || is_loopback(first_host)) return first_host;
    try {
        const Found here = looked_up({first_host, 0}, SOCK_STREAM);
        const Descriptor listener(::socket(here->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::bind(listener.get(), here->ai_addr, here->ai_addrlen) == 0) return first_host;
        // Sends nothing: it asks which way leads there.
        const Found there = looked_up({first_host, 9}, SOCK_DGRAM);
        const Descriptor probe(::socket(there->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        if (::connect(probe.get(), there->ai_addr, there->ai_addrlen) == 0)
            if (const auto found = own_end(probe.get())) return found->host;
        throw Error(ErrorCode::io, std::strerror(errno));
    } catch (const Error& error) {
        throw make_error(error.code(), "process ", rank, " cannot reach ", first_host, ": ",
                         error.what());
    }
}

void refuse_any(const Address& address, const std::string& host) {
    if (is_any(host))
        throw make_error(ErrorCode::invalid_argument, "'", address.text(),
                         "' means all interfaces; pass the address at which consumers reach this "
                         "machine");
}

/// Adds a socket that listens at an address.
void listen(Listeners& listeners, const Address& address) {
    const Found found = looked_up(address, SOCK_STREAM);
    const auto refuse = [&address] {
        throw make_error(ErrorCode::io, address.text(), ": ", std::strerror(errno));
    };
    const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) refuse();
    listeners.sockets.emplace_back(socket);
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (found->ai_family == AF_INET6)
        ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (::bind(socket, found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket, backlog) != 0)
        refuse();
    const auto own = own_end(socket);
    if (!own) throw Error(ErrorCode::io, "cannot find the address that a process listens at");
    listeners.address = *own;
}

/// Under a name without a file. Where the system has no such names there is no socket.
void listen_locally(Listeners& listeners) {
    const std::string name = "datamover-" + random_digits(name_bytes);
    const auto [address, bytes] = local_address(name);
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
        ::listen(socket.get(), backlog) != 0)
        return;
    listeners.sockets.push_back(std::move(socket));
    listeners.local_name = name;
}

constexpr std::chrono::milliseconds redial_time{50};

/// In tenths.
double seconds_since(Clock::time_point begin) {
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    return static_cast<double>((passed.count() + 50) / 100) / 10;
}

/// A connection; null with the error's number.
std::shared_ptr<Connection> connected(const sockaddr* address, socklen_t bytes,
                                      Clock::time_point until, const Look& look, int& error) {
    const int socket = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    error = errno;
    if (socket < 0) return nullptr;
    auto connection = std::make_shared<Connection>(socket);
    error = ::connect(socket, address, bytes) == 0 ? 0 : errno;
    if (error == EINPROGRESS || error == EINTR) {
        socklen_t length = sizeof error;
        if (!wait_for(socket, POLLOUT, until, look))
            error = ETIMEDOUT;
        else if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
            error = errno;
    }
    if (error != 0) return nullptr;
    // Where a port is in the range that the system takes its own from, a connection to nobody can
    // meet itself.
    const auto here = own_end(socket);
    if (here && here == peer_end(socket)) error = ECONNREFUSED;
    return error == 0 ? connection : nullptr;
}

/// Says who this is.
void introduce(const Connection& connection, const std::string& where, Frame words,
               const Dialing& dialing, Clock::time_point until) {
    connection.look_after();
    const Frame greeting = read_frame(connection, max_greeting_bytes, until, dialing.look);
    if (greeting.type != Frame::Type::greeting || greeting.version != protocol_version)
        throw make_error(ErrorCode::io, where,
                         " speaks another version of the protocol; install the same version of "
                         "datamover at both ends");
    words.token = dialing.token(connection);
    send_frame(connection, std::move(words));
}

}  // namespace

Address Address::of_text(std::string_view text) {
    const auto refuse = [text] {
        throw make_error(ErrorCode::invalid_argument, "'", text,
                         "' is not a valid stream address; pass one like \"tcp://127.0.0.1:5777\"");
    };
    if (!text.starts_with(scheme)) refuse();
    const std::string_view rest = text.substr(scheme.size());
    const std::size_t colon = rest.rfind(':');
    if (colon == std::string_view::npos) refuse();
    std::string_view host = rest.substr(0, colon);
    const std::string_view port = rest.substr(colon + 1);
    if (host.starts_with('[') != host.ends_with(']')) refuse();
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    Address address{std::string(host), 0};
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (host.empty() || host.find('\0') != std::string_view::npos || port.empty() ||
        error != std::errc() || end != port.data() + port.size() || address.port < 0 ||
        address.port > 65535)
        refuse();
    return address;
}

std::string Address::text() const {
    const bool is_v6 = host.find(':') != std::string::npos;
    return concat(scheme, is_v6 ? "[" + host + "]" : host, ":", port);
}

bool is_loopback(const std::string& host) {
    const auto address = numeric(host);
    if (!address) return host == "localhost";
    return IN6_IS_ADDR_LOOPBACK(&*address) ||
           (IN6_IS_ADDR_V4MAPPED(&*address) && address->s6_addr[12] == 127);
}

bool is_any(const std::string& host) {
    const auto address = numeric(host);
    return host == "*" ||  // as other libraries write it
           (address && (IN6_IS_ADDR_UNSPECIFIED(&*address) ||
                        (IN6_IS_ADDR_V4MAPPED(&*address) && address->s6_addr32[3] == 0)));
}

std::optional<Address> own_end(int socket) {
    return numbers_of(socket, &::getsockname);
}

std::optional<Address> peer_end(int socket) {
    return numbers_of(socket, &::getpeername);
}

Listeners listen_at(const Address& first, int rank, bool local) {
    refuse_any(first, first.host);
    Listeners listeners;
    listen(listeners, {own_host(first.host, rank), rank == 0 ? first.port : 0});
    refuse_any(first, listeners.address.host);  // "0" does not look like it
    if (local) listen_locally(listeners);
    return listeners;
}

Clock::time_point greeting_end(const Deadline& deadline) {
    const auto end = Clock::now() + std::chrono::milliseconds(greeting_milliseconds.load());
    return deadline ? std::min(*deadline, end) : end;
}

std::shared_ptr<Connection> dial(const Address& address, Frame words, const Dialing& dialing,
                                 const Deadline& deadline, bool again) {
    const Clock::time_point begin = Clock::now();
    while (true) {
        int error = 0;
        std::shared_ptr<Connection> connection;
        const Found found = looked_up(address, SOCK_STREAM);
        for (auto* one = found.get(); one != nullptr && connection == nullptr; one = one->ai_next)
            connection = connected(one->ai_addr, one->ai_addrlen, greeting_end(deadline),
                                   dialing.look, error);
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
        wait_for(-1, 0, Clock::now() + redial_time, dialing.look);  // before it is asked again
    }
}

std::shared_ptr<Connection> dial_local(const std::string& name, Frame words,
                                       const Dialing& dialing) {
    if (name.size() >= sizeof(sockaddr_un::sun_path)) return nullptr;
    const auto [address, bytes] = local_address(name);
    int error = 0;
    const auto connection = connected(reinterpret_cast<const sockaddr*>(&address), bytes,
                                      greeting_end(std::nullopt), dialing.look, error);
    if (connection == nullptr) return nullptr;
    introduce(*connection, "the local connection", words, dialing, greeting_end(std::nullopt));
    return connection;
}

}  // namespace datamover::stream

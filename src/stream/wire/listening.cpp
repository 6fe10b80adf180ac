// SPDX-License-Identifier: BSD-3-Clause
// Parsing of addresses, and listening sockets.
#include "stream/wire/listening.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "geometry/make_error.hpp"
#include "stream/wire/token.hpp"

namespace datamover::stream {
namespace {

constexpr int backlog = 4096;  ///< or as many as the system allows
constexpr int name_bytes = 16;
constexpr std::string_view scheme = "tcp://";

/// An address as numbers, without asking anybody what a name stands for; nothing for a name.
struct NumericAddress {
    std::array<unsigned char, 16> bytes{};
    bool is_v6 = false;
};
std::optional<NumericAddress> numeric(const std::string& host) {
    NumericAddress found;
    if (::inet_pton(AF_INET, host.c_str(), found.bytes.data()) == 1) return found;
    found.is_v6 = true;
    if (::inet_pton(AF_INET6, host.c_str(), found.bytes.data()) == 1) return found;
    return std::nullopt;
}

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
/// What the system knows of an address; null, and `error`, where it knows nothing.
Found looked_up(const Address& address, int type, int& error) {
    addrinfo hints{};
    hints.ai_socktype = type;
    addrinfo* first = nullptr;
    error =
        ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &first);
    return {error == 0 ? first : nullptr, &::freeaddrinfo};
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

Address own_address(int socket) {
    if (auto found = numbers_of(socket, &::getsockname)) return *std::move(found);
    throw Error(ErrorCode::io, "cannot find the address that a process listens at");
}

/// A socket that is closed with this.
struct Socket {
    explicit Socket(int number_) : number(number_) {}
    ~Socket() {
        if (number >= 0) ::close(number);
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    int number;
};

/// The address of this machine at which the others find this process.
std::string own_host(const std::string& first_host, int rank) {
    if (rank == 0 || is_loopback(first_host)) return first_host;
    int error = 0;
    const Found here = looked_up({first_host, 0}, SOCK_STREAM, error);
    if (here) {
        const Socket probe(::socket(here->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::bind(probe.number, here->ai_addr, here->ai_addrlen) == 0) return first_host;
    }
    // Sends nothing: it asks which way leads there.
    const Found there = looked_up({first_host, 9}, SOCK_DGRAM, error);
    if (there) {
        const Socket probe(::socket(there->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        if (::connect(probe.number, there->ai_addr, there->ai_addrlen) == 0)
            return own_address(probe.number).host;
    }
    throw make_error(ErrorCode::io, "process ", rank, " cannot reach ", first_host);
}

void refuse_any(const Address& address, const std::string& host) {
    if (is_any(host))
        throw make_error(ErrorCode::invalid_argument, "'", address.text(),
                         "' means all interfaces; pass the address at which consumers reach this "
                         "machine");
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
    if (!address->is_v6) return address->bytes[0] == 127;
    std::array<unsigned char, 16> loopback{};
    loopback.back() = 1;
    return address->bytes == loopback;
}

bool is_any(const std::string& host) {
    if (host == "*") return true;  // as other libraries write it
    const auto address = numeric(host);
    return address && address->bytes == std::array<unsigned char, 16>{};
}

std::string peer_address(int socket) {
    const auto found = numbers_of(socket, &::getpeername);
    return found ? found->text() : "";
}

Listeners::Listeners(const Address& first, int rank, bool local) {
    refuse_any(first, first.host);
    try {
        listen({own_host(first.host, rank), rank == 0 ? first.port : 0});
        refuse_any(first, address_.host);  // "0" does not look like it
        if (local) listen_locally();
    } catch (...) {
        for (const int socket : sockets_) ::close(socket);
        throw;
    }
}

Listeners::~Listeners() {
    for (const int socket : sockets_) ::close(socket);
}

void Listeners::listen(const Address& address) {
    int unknown = 0;
    const Found found = looked_up(address, SOCK_STREAM, unknown);
    if (!found) throw make_error(ErrorCode::io, address.text(), ": ", ::gai_strerror(unknown));
    const auto refuse = [&address] {
        throw make_error(ErrorCode::io, address.text(), ": ", std::strerror(errno));
    };
    const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) refuse();
    sockets_.push_back(socket);
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (found->ai_family == AF_INET6)
        ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (::bind(socket, found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket, backlog) != 0)
        refuse();
    address_ = own_address(socket);
}

/// Under a name without a file. Where the system has no such names there is no socket.
void Listeners::listen_locally() {
    const std::string name = "datamover-" + random_digits(name_bytes);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // which begins with a 0
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return;
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
        ::listen(socket, backlog) != 0) {
        ::close(socket);
        return;
    }
    sockets_.push_back(socket);
    local_name_ = name;
}

}  // namespace datamover::stream

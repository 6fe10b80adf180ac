// SPDX-License-Identifier: BSD-3-Clause
// Addresses of streams, and their listeners.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace datamover::stream {

/// A host and a port, such as those of "tcp://127.0.0.1:5777" or "tcp://[::1]:5777".
struct Address {
    std::string host;
    int port = 0;

    /// Throws invalid_argument.
    static Address of_text(std::string_view text);
    std::string text() const;
};

/// Whether only processes of this machine can reach an address.
bool is_loopback(const std::string& host);
/// Whether an address stands for all interfaces of a machine.
bool is_any(const std::string& host);

/// The address of a connection's other end, as numbers; "" of a local one.
std::string peer_address(int socket);

/// Sockets that listen, closed with this unless they are taken.
class Listeners {
public:
    /// Process 0 listens at the address, the others at ports of their own, at that address or,
    /// where it is not this machine's, at the one that leads there. With `local` also under a name
    /// that processes of this machine can find. Throws io.
    Listeners(const Address& first, int rank, bool local);
    ~Listeners();
    Listeners(const Listeners&) = delete;
    Listeners& operator=(const Listeners&) = delete;

    /// Where this process can be reached.
    const Address& address() const { return address_; }
    /// "" where there is none.
    const std::string& local_name() const { return local_name_; }
    /// The caller closes them.
    std::vector<int> take() { return std::exchange(sockets_, {}); }

private:
    void listen(const Address& address);
    void listen_locally();

    std::vector<int> sockets_;
    Address address_;
    std::string local_name_;
};

}  // namespace datamover::stream

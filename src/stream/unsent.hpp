// SPDX-License-Identifier: BSD-3-Clause
// Unsent: sends short messages without waiting for the receiver.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "stream/connection.hpp"

namespace datamover::stream {

/// What one connection is told, in order, by anybody, without waiting. What the system does not
/// take at once is kept until it does; what is said is bounded by the credits of the other end, so
/// that what is kept is, too. Where the connection has ended, whoever reads it learns of it, not
/// who says something.
class Unsent {
public:
    /// The connection must outlive it.
    explicit Unsent(const Connection& connection) : connection_(connection) {}

    /// Sends bytes; whether the system took them all.
    bool send(std::span<const std::byte> bytes);
    /// Sends what is kept, as far as the system takes it; whether nothing is left.
    bool send_more();
    bool is_empty() const;

private:
    void try_to_send();  ///< under the lock

    const Connection& connection_;
    mutable std::mutex lock_;
    std::vector<std::byte> kept_;
    bool is_broken_ = false;
};

}  // namespace datamover::stream

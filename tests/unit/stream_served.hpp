// SPDX-License-Identifier: BSD-3-Clause
// Test peer of a data connection: acts as the receiving process.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "datamover/error.hpp"
#include "stream/sender/outbox.hpp"
#include "stream/wire/headers.hpp"

namespace datamover::stream {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::size_t count, std::uint32_t seed) {
    std::mt19937 draw(seed);
    Bytes bytes(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(draw());
    return bytes;
}

/// Bytes that go into a message as they lie.
inline AddressRelation in_order(std::size_t count) {
    std::vector<std::int64_t> places(count);
    std::iota(places.begin(), places.end(), 0);
    return AddressRelation::from_pairs(places, places, 1, 1);
}

/// One consumer of one process, and both ends of its only data connection.
class Served {
public:
    /// With `may_hear_later`, its thread may rest.
    explicit Served(std::size_t elems, bool may_hear_later = false)
        : outbox_(1, {may_hear_later, false}), outgoing_(0, in_order(elems)) {
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0);
        // What does not come is an error of the test, which does not wait for ever.
        const timeval limit{60, 0};
        ::setsockopt(ends_[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        outbox_.open("key", 1);
        connection_ = std::make_unique<Connection>(ends_[0]);
        thread_ = std::thread([this] {
            try {
                outbox_.serve(*connection_, "key", 0, 0,
                              [this](std::uint64_t place) { hear_taken(place); });
            } catch (const Error& error) {
                code_ = error.code();
            }
            connection_->end();
        });
    }
    ~Served() {
        ::close(ends_[1]);
        outbox_.end("key");
        if (thread_.joinable()) thread_.join();
    }

    void pack(std::uint64_t place, const Bytes& bytes) {
        outbox_.pack("key", place, 0, {&outgoing_, 1},
                     {bytes.data(), {0, static_cast<std::int64_t>(bytes.size())}});
    }
    void grant(std::uint64_t taken, std::uint64_t may, std::uint32_t alone = 0,
               std::uint32_t magic = Grant::right_magic) {
        const Grant grant =
            sealed(Grant{.magic = magic, .taken = taken, .may = may, .alone = alone});
        const auto words = bytes_of_header(grant);
        // In two parts: what comes need not come at once. The other end may have ended.
        const auto half = static_cast<ssize_t>(words.size() / 2);
        if (::send(ends_[1], words.data(), words.size() / 2, MSG_NOSIGNAL) == half)
            static_cast<void>(::send(ends_[1], words.data() + half, words.size() - words.size() / 2,
                                     MSG_NOSIGNAL));
    }
    /// The next bytes; fewer where the connection has ended.
    Bytes read(std::size_t count) const {
        Bytes bytes(count);
        std::size_t have = 0;
        while (have < count) {
            const ssize_t more = ::recv(ends_[1], bytes.data() + have, count - have, 0);
            if (more <= 0) break;
            have += static_cast<std::size_t>(more);
        }
        bytes.resize(have);
        return bytes;
    }
    /// By which error serving ended.
    ErrorCode ended() {
        thread_.join();
        return code_;
    }
    /// The receiving process ends.
    void leave() { ::shutdown(ends_[1], SHUT_RDWR); }
    Outbox& outbox() { return outbox_; }

    /// All steps before this place were said to be taken.
    std::uint64_t taken() {
        const std::lock_guard lock(lock_);
        return taken_;
    }
    /// Waits until so much was.
    bool await_taken(std::uint64_t place) {
        std::unique_lock lock(lock_);
        return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return taken_ >= place; });
    }
    /// Whether this thread has heard what was said last.
    bool heard_here() {
        const std::lock_guard lock(lock_);
        return heard_by_ == std::this_thread::get_id();
    }
    /// More cannot have been taken.
    std::atomic<std::uint64_t> most_taken{~std::uint64_t{0}};

private:
    void hear_taken(std::uint64_t place) {
        if (place > most_taken) throw Error(ErrorCode::io, "it cannot have taken that");
        const std::lock_guard lock(lock_);
        taken_ = std::max(taken_, place);
        heard_by_ = std::this_thread::get_id();
        changed_.notify_all();
    }

    Outbox outbox_;
    std::mutex lock_;
    std::condition_variable changed_;
    std::uint64_t taken_ = 0;
    std::thread::id heard_by_;
    Outgoing outgoing_;
    int ends_[2]{};
    ErrorCode code_{};
    std::unique_ptr<Connection> connection_;
    std::thread thread_;
};

}  // namespace datamover::stream

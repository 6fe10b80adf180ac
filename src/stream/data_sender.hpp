// SPDX-License-Identifier: BSD-3-Clause
// How does one data connection send what its receiving process may be sent, and hear what it asks?
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "stream/box.hpp"
#include "stream/connection.hpp"
#include "stream/message_words.hpp"

namespace datamover::stream {

/// In its box from its beginning to its end.
class DataSender final : public BoxReader {
public:
    /// Adds what it sends to `bytes_sent`.
    DataSender(const Connection& connection, Box& box, int pathway, int pathways,
               std::atomic<std::uint64_t>& bytes_sent);
    ~DataSender() override;
    DataSender(const DataSender&) = delete;
    DataSender& operator=(const DataSender&) = delete;

    /// Goes on until the connection ends: returns by an error alone.
    [[noreturn]] void serve();

    void wake() override;
    void end() override { connection_.end(); }

private:
    void wait() const;
    void hear();
    void obey(const Request& request);
    void advance(const Request& request);
    /// False where there is nothing to send now.
    bool send_next();
    void send_again(const Request& asked);
    void send(const KeptMessage& kept, std::uint64_t begin, std::uint64_t end, bool shared);
    void send_header(const ChunkHeader& header, const Segment& segment);

    const Connection& connection_;
    Box& box_;
    const int pathway_, pathways_;
    int wake_;  ///< an eventfd
    std::uint64_t next_ = 0, may_ = 0;
    std::optional<std::set<std::uint64_t>> alone_;  ///< places, where each is granted by itself
    std::optional<Request> asked_;
    std::vector<std::byte> requests_;
    std::set<std::uint64_t> known_segments_;
    std::atomic<std::uint64_t>& bytes_sent_;
};

}  // namespace datamover::stream

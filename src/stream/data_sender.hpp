// SPDX-License-Identifier: BSD-3-Clause
// How does one data connection send what its receiving process may be sent, and hear what it asks?
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "stream/box.hpp"
#include "stream/chunk_on_its_way.hpp"
#include "stream/connection.hpp"
#include "stream/message_words.hpp"

namespace datamover::stream {

/// In its box from its beginning to its end. What is short and can be sent at once, the sending
/// program sends itself; a thread sends what is left.
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

    void sends_more() override;
    void end() override { connection_.end(); }

private:
    /// A message that is kept while a part of it is sent, and given back to the box.
    struct Sending {
        Sending(Box& box_, KeptMessage kept_) : box(box_), kept(std::move(kept_)) {}
        ~Sending() { box.give_back(std::move(kept.message)); }
        Sending(const Sending&) = delete;
        Sending& operator=(const Sending&) = delete;

        Box& box;
        KeptMessage kept;
        std::uint64_t at = 0, end = 0;  ///< of its bytes, from where to where chunks are to begin
        bool is_shared = false;
    };

    void wake();
    /// Whether the system takes no more for now.
    bool is_held_up();
    void wait(bool is_held_up);
    void hear();

    // Under the lock.
    void obey(const Request& request);
    void advance(const Request& request);
    void send_what_goes(std::uint64_t most);
    bool begin_next();
    void limit_kept(std::uint64_t bytes);
    void begin_again(const Request& asked);
    void begin_chunk();
    int file_for(const Segment& segment);

    const Connection& connection_;
    Box& box_;
    const bool loops_back_;
    const int pathway_, pathways_;
    int wake_;                         ///< an eventfd
    std::vector<std::byte> requests_;  ///< of the thread alone

    std::mutex lock_;
    std::uint64_t next_ = 0, may_ = 0;
    std::optional<std::set<std::uint64_t>> alone_;  ///< places, where each is granted by itself
    std::optional<Request> asked_;
    std::optional<Sending> sending_;
    ChunkOnItsWay chunk_;                     ///< of what is being sent
    Clock::time_point taken_ = Clock::now();  ///< when the system took something last
    int kept_limit_ = 0;                      ///< of what the system keeps; 0: its own
    std::set<std::uint64_t> known_segments_;
    std::atomic<std::uint64_t>& bytes_sent_;
};

}  // namespace datamover::stream

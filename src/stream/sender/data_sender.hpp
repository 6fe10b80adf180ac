// SPDX-License-Identifier: BSD-3-Clause
// DataSender: sends one receiving process the messages that it may have, and reads its grants.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "datamover/error.hpp"
#include "stream/sender/box.hpp"
#include "stream/wire/connection.hpp"
#include "stream/wire/message_words.hpp"

namespace datamover::stream {

struct SendingHabits {
    /// What receiving processes say the program may hear later, where it comes often.
    bool may_hear_later = false;
    bool is_one_of_several = false;  ///< processes that send
};

/// A chunk: its header, then its bytes or a file descriptor of where they lie. Nothing here waits.
class ChunkOnItsWay {
public:
    ChunkOnItsWay() = default;
    ~ChunkOnItsWay() { close_file(); }
    ChunkOnItsWay(const ChunkOnItsWay&) = delete;
    ChunkOnItsWay& operator=(const ChunkOnItsWay&) = delete;

    /// Begins with another one. `body` must stay as it is until all is sent; `file`, if any, is
    /// closed then.
    void begin(const ChunkHeader& header, std::span<const std::byte> body, int file = -1);
    /// Sends what the system takes; whether any of it was taken. Throws peer_failed.
    bool send_more(const Connection& connection);
    bool is_sent() const { return header_.empty() && body_.empty(); }

private:
    void close_file();

    std::array<std::byte, ChunkHeader::size_bytes> words_{};
    std::span<const std::byte> header_, body_;  ///< what is left of both
    int file_ = -1;
};

/// In its box from its beginning to its end. What is short and can be sent at once, the sending
/// program sends itself, and it hears then what it needs to hear; a thread sends what is left, and
/// listens where the program does not come.
class DataSender final : public BoxReader {
public:
    /// Adds what it sends to `bytes_sent`; calls `taken`, if any, where the receiving process says
    /// that all steps before a place are. Throws io where there can be no
    /// more.
    DataSender(const Connection& connection, Box& box, int pathway, int pathways,
               SendingHabits habits, std::atomic<std::uint64_t>& bytes_sent, TakenCall taken = {});
    ~DataSender() override;
    DataSender(const DataSender&) = delete;
    DataSender& operator=(const DataSender&) = delete;

    /// Goes on until the connection ends: returns by an error alone.
    [[noreturn]] void serve();

    void sends_more() override;
    void sends_on(bool is_whole) override;
    void hears() override;
    void leaves() override;
    void end() override;

    // For tests: so long the thread leaves listening to a program that was here.
    inline static std::atomic<int> patience_milliseconds{2};

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

    static constexpr Clock::time_point long_ago = Clock::time_point::min();

    void wake();
    std::unique_lock<std::mutex> entered();
    /// What the thread waits for.
    enum class Awaited { what_comes, room, program };
    Awaited send_more();
    void wait(Awaited awaited);

    void hear(std::unique_lock<std::mutex> lock);
    void tell_taken(std::unique_lock<std::mutex> lock, std::uint64_t before);

    // Under the lock.
    bool hear_grants();
    void obey_grants();
    void obey(const Grant& grant);
    void send_what_goes(std::uint64_t most);
    bool begin_next();
    void limit_kept(std::uint64_t bytes);
    bool begin_chunk();
    /// Of the message that it sends no more has been packed yet.
    bool waits_for_packing() const;
    std::uint64_t most_at_once() const;
    int file_for(const Segment& segment);

    const Connection& connection_;
    Box& box_;
    const bool loops_back_;
    const int pathway_, pathways_;
    const SendingHabits habits_;
    int wake_;  ///< an eventfd

    std::mutex lock_;
    std::vector<std::byte> grants_;        ///< of which the last is not whole
    bool rests_ = false;                   ///< the thread does not listen
    bool waits_ = false;                   ///< there is a message that may not be sent yet
    std::atomic<bool> sends_long_{false};  ///< more than the program sends itself
    /// When it was here last; not under the lock.
    std::atomic<Clock::time_point> program_left_{long_ago};
    std::uint64_t next_ = 0, may_ = 0;
    std::optional<std::set<std::uint64_t>> alone_;  ///< places, where each is granted by itself
    std::optional<Error> wrong_;  ///< with what was granted: nothing more is heard, nor sent
    std::optional<Sending> sending_;
    ChunkOnItsWay chunk_;                     ///< of what is being sent
    Clock::time_point taken_ = Clock::now();  ///< when the system took something last
    int kept_limit_ = 0;                      ///< of what the system keeps; 0: its own
    std::set<std::uint64_t> known_segments_;
    std::uint64_t said_taken_ = 0;  ///< all steps before this place
    const TakenCall taken_call_;
    std::atomic<std::uint64_t>& bytes_sent_;
};

}  // namespace datamover::stream

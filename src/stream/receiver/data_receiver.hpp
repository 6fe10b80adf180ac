// SPDX-License-Identifier: BSD-3-Clause
// DataReceiver: receives the chunks that one sending process sends over one connection.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "stream/receiver/incoming_array.hpp"
#include "stream/wire/connection.hpp"

namespace datamover::stream {

/// Knows to which messages chunks belong.
class MessageFinder {
public:
    virtual ~MessageFinder() = default;
    /// The message that a chunk belongs to. Null: it is not known yet whether there is such a
    /// message. Throws peer_failed where there is none.
    virtual std::shared_ptr<IncomingMessage> find(int producer, const ChunkHeader& chunk) = 0;
    /// One is whole.
    virtual void finished(std::uint64_t place) = 0;
};

/// Of all connections of a consumer; read by anybody.
struct ReceptionCounters {
    std::atomic<std::uint64_t> bytes_received{0}, checksum_errors{0};
    std::atomic<std::uint64_t> connections{0}, connections_local{0};
};

/// One connection to one sending process. Nothing here waits.
class DataReceiver {
public:
    DataReceiver(std::shared_ptr<const Connection> connection, int producer, int pathway,
                 int pathways, ReceptionCounters& counters);
    ~DataReceiver();
    DataReceiver(const DataReceiver&) = delete;
    DataReceiver& operator=(const DataReceiver&) = delete;

    int socket() const { return connection_->socket(); }
    Unsent& unsent() { return unsent_; }
    /// Ends the connection, whoever else has it.
    void end() const { connection_->end(); }
    bool has_ended() const { return has_ended_; }
    /// What comes next belongs to an array of which nothing is known yet: `resume` goes on.
    bool is_paused() const { return is_paused_; }

    /// Says that all steps before one place are taken, those before another may be sent. Or, of
    /// these, the last alone, besides those that were granted so before.
    void grant(std::uint64_t taken, std::uint64_t may, bool alone);
    /// Takes in what has come, a bounded part of it. Throws peer_failed (what came makes no sense),
    /// io (a chunk arrived damaged), no_memory.
    void receive(MessageFinder& finder);
    /// Tries again to find the message of what comes next. Throws as receive.
    void resume(MessageFinder& finder);

private:
    struct Coming {
        std::shared_ptr<IncomingMessage> message;
        ChunkHeader header;
    };

    template <class Work>
    void naming_producer(const Work& work);
    bool receive_once(MessageFinder& finder);
    std::optional<std::size_t> read(std::span<std::byte> body, std::span<std::byte> header);
    void keep_files(void* control, std::size_t bytes);
    void begin(MessageFinder& finder);
    std::shared_ptr<const SegmentView> segment(std::uint64_t number);
    void check(MessageFinder& finder, std::uint32_t checksum);

    const std::shared_ptr<const Connection> connection_;
    Unsent unsent_;
    const int producer_, pathway_, pathways_;
    ReceptionCounters& counters_;
    std::array<std::byte, ChunkHeader::size_bytes> header_{};
    std::size_t header_bytes_ = 0;  ///< that have come
    std::span<std::byte> body_;     ///< that is missing
    std::optional<Coming> coming_;
    std::deque<int> files_;  ///< handed over, and of no segment yet
    std::map<std::uint64_t, std::shared_ptr<const SegmentView>> segments_;
    bool has_ended_ = false, is_paused_ = false;
};

}  // namespace datamover::stream

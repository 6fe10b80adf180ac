// SPDX-License-Identifier: BSD-3-Clause
// Messages that a receiving process gets of an array: their bytes, the places of their elements,
// and the connections over which they come.
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
#include <string>
#include <utility>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/memory_layout.hpp"
#include "datamover/motion_plan.hpp"
#include "stream/wire/connection.hpp"
#include "stream/wire/headers.hpp"
#include "stream/wire/message_memory.hpp"
#include "stream/wire/plan_between.hpp"

namespace datamover::stream {

/// A message of one sending process.
class IncomingMessage {
public:
    /// Comes into `memory`, where its elements belong; else it takes memory from the pool, which
    /// must outlive it, where it has to have its own.
    IncomingMessage(std::uint64_t bytes, MemoryPool& pool, std::shared_ptr<std::byte> memory)
        : bytes_(bytes), missing_(bytes), pool_(pool), memory_(std::move(memory)) {}
    IncomingMessage(const IncomingMessage&) = delete;
    IncomingMessage& operator=(const IncomingMessage&) = delete;

    std::uint64_t size() const { return bytes_; }
    /// All of its bytes: this process's, or the sending one's.
    std::span<const std::byte> bytes() const;
    bool is_whole() const { return missing_ == 0; }
    /// So many bytes have come undamaged.
    void verified(std::uint64_t count) { missing_ -= count; }

    /// Takes note of the next chunk of a connection. Throws peer_failed where it is not the next.
    void go_on(std::uint64_t offset, std::uint64_t count, int pathway, int pathways);
    /// Where bytes are put that come over a connection; memory is taken for the first. Throws
    /// no_memory, and peer_failed if others of the message came in a segment.
    std::span<std::byte> place(std::uint64_t offset, std::uint64_t count);
    /// The checksum of bytes that lie in a segment, in which the message begins at `begin`. They
    /// are copied meanwhile where the message has memory. Throws peer_failed where they lie
    /// elsewhere than those before.
    std::uint32_t taken_from(SegmentView segment, std::uint64_t begin, std::uint64_t offset,
                             std::uint64_t count);

private:
    const std::uint64_t bytes_;
    std::uint64_t missing_;
    MemoryPool& pool_;
    std::shared_ptr<std::byte> memory_;
    SegmentView segment_;
    std::uint64_t begin_ = 0;                           ///< in the segment
    std::array<std::uint64_t, max_pathways> passed_{};  ///< bytes of each connection's share
};

/// The memory of this process's part of an array.
struct DestinationMemory {
    std::byte* data = nullptr;
    const MemoryLayout* memory = nullptr;  ///< offsets from `data`
    AddressBounds bounds;                  ///< what may be written, from `data`
};

/// What has come of an array in one step.
struct ArrayMessages {
    /// By the sending process that they come from.
    std::map<int, std::shared_ptr<IncomingMessage>> by_producer;
    /// Where the array comes in new memory: that, once any message of it came.
    std::shared_ptr<std::byte> new_memory;
};

/// The plan of an array that is wanted and sent.
class IncomingArray {
public:
    /// Throws mismatch (the layouts do not fit), wrong_type (it has another type), out_of_range.
    IncomingArray(const SentArray& sent, const WantedArray& wanted, int rank);

    const std::string& name() const { return sent_.name; }
    const std::string& dtype() const { return sent_.dtype; }
    std::int64_t elem_bytes() const { return sent_.elem_bytes; }
    /// Of the receiving processes.
    const Layout& wanted() const { return wanted_; }
    /// What comes of it from a sending process.
    struct Part {
        std::uint64_t bytes = 0;
        AddressRelation relation{};  ///< from the message to the memory of this process
        /// Where the message lies in new memory, if it needs no unpacking: it comes there.
        std::optional<std::size_t> place{};
    };
    /// By the sending process.
    const std::map<int, Part>& parts() const { return parts_; }
    /// Bytes of the memory that it comes in, where that is new in each step; else 0.
    std::size_t new_bytes() const;
    /// Puts messages where their elements belong, but those that came there. Throws as
    /// AddressRelation::bind_scatter.
    void unpack(const ArrayMessages& messages, const DestinationMemory& destination);
    /// The same in the new memory.
    void unpack_new(const ArrayMessages& messages) {
        unpack(messages, {messages.new_memory.get(), &*new_memory_, {0, new_memory_->end_bytes}});
    }

private:
    void compile_for(const MemoryLayout& memory);

    SentArray sent_;
    Layout wanted_;
    int rank_;
    MotionPlan plan_;
    std::map<int, Part> parts_;
    std::optional<MemoryLayout> memory_;  ///< that the relations are for
    std::optional<MemoryLayout> new_memory_;
};

class IncomingSteps;

/// Of all connections of a consumer; read by anybody.
struct ReceptionCounters {
    std::atomic<std::uint64_t> bytes_received{0}, checksum_errors{0};
    std::atomic<std::uint64_t> connections{0}, connections_local{0};
};

/// One connection to one sending process. Nothing here waits.
class DataReceiver : public Link {
public:
    DataReceiver(std::shared_ptr<const Connection> connection, int producer, int pathway,
                 int pathways, ReceptionCounters& counters);

    bool has_ended() const { return has_ended_; }
    /// What comes next belongs to an array of which nothing was known yet: `receive` looks again.
    bool is_paused() const { return is_paused_; }

    /// Says that all steps before one place are taken, those before another may be sent. Or, of
    /// these, the last alone, besides those that were granted so before.
    void grant(std::uint64_t taken, std::uint64_t may, bool alone);
    /// Takes in what has come, a bounded part of it, for these steps. Throws peer_failed, io (a
    /// chunk arrived damaged, or is not of this protocol), no_memory.
    void receive(IncomingSteps& steps);

private:
    struct Coming {
        std::shared_ptr<IncomingMessage> message;
        ChunkHeader header;
    };

    bool receive_once(IncomingSteps& steps);
    void begin(IncomingSteps& steps);
    SegmentView segment(std::uint64_t number);
    void check(IncomingSteps& steps, std::uint32_t checksum);

    const int producer_, pathway_, pathways_;
    ReceptionCounters& counters_;
    std::array<std::byte, sizeof(ChunkHeader)> header_{};
    std::size_t header_bytes_ = 0;  ///< that have come
    std::span<std::byte> body_;     ///< that is missing
    std::optional<Coming> coming_;
    std::deque<Descriptor> files_;  ///< handed over, and of no segment yet
    std::map<std::uint64_t, SegmentView> segments_;
    bool has_ended_ = false, is_paused_ = false;
};

}  // namespace datamover::stream

// SPDX-License-Identifier: BSD-3-Clause
// Box: the messages that are kept for one receiving process, their order, and the reuse of their
// memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stream/wire/memory_pool.hpp"
#include "stream/wire/message_words.hpp"
#include "stream/wire/segment.hpp"

namespace datamover::stream {

/// Memory for a message: this process's own, or a segment that a local receiver reads.
class Message {
public:
    /// Throws no_memory.
    explicit Message(std::size_t bytes);
    explicit Message(std::unique_ptr<Segment> segment)
        : segment_(std::move(segment)), bytes_(segment_->memory()), packed_(bytes_.size()) {}

    std::span<std::byte> bytes() const { return bytes_; }
    /// Null where the memory is this process's own.
    const Segment* segment() const { return segment_.get(); }

    /// How many of its bytes, from the first on, have been packed and may be read: all, unless
    /// `set_packed` said otherwise. Called by who packs and by who sends.
    std::size_t packed() const { return packed_.load(std::memory_order_acquire); }
    void set_packed(std::size_t bytes) const { packed_.store(bytes, std::memory_order_release); }

private:
    OwnBytes own_;
    std::unique_ptr<Segment> segment_;
    std::span<std::byte> bytes_;
    mutable std::atomic<std::size_t> packed_;
};

using MessagePtr = std::shared_ptr<const Message>;

/// A message of an array, at its step's place among those of one consumer.
struct KeptMessage {
    std::uint64_t place = 0;
    std::uint32_t array = 0;
    MessagePtr message;
    std::int64_t number = no_number;  ///< as ChunkHeader's
};

/// Told that a receiving process has taken all steps before a place. Throws io where it cannot
/// have.
using TakenCall = std::function<void(std::uint64_t place)>;

/// What a data connection is to the box.
class BoxReader {
public:
    virtual ~BoxReader() = default;
    /// A message was put; called by who put it. Does not wait, nor throw.
    virtual void sends_more() = 0;
    /// More was packed of the message that was put last, or the rest of it; as sends_more.
    virtual void sends_on(bool) {}
    /// The sending program needs to know what the receiving process has said: it is heard, where
    /// nobody else listens. Does not wait, nor throw.
    virtual void hears() {}
    /// The sending program waits for what the receiving process says: somebody else listens. Does
    /// not wait, nor throw.
    virtual void leaves() {}
    /// Called under the box's lock.
    virtual void end() = 0;
};

/// Called by the sending program and by the threads of data connections.
class Box {
public:
    /// Memory for a message: such as was used before, where there is any; best of what was taken
    /// just now, which is in the processor's caches. Throws no_memory.
    MessagePtr memory(std::size_t bytes);
    /// Keeps a message, and has it sent; but where the connections have ended. `number` is as
    /// ChunkHeader's.
    void put(std::uint64_t place, std::uint32_t array, MessagePtr message,
             std::int64_t number = no_number);
    /// More was packed of the message that was put last, or the rest of it.
    void go_on(bool is_whole);
    /// Forgets what is kept of a step.
    void drop(std::uint64_t place);
    /// As BoxReader::hears and BoxReader::leaves, for all connections.
    void hear();
    void leave();
    /// Forgets what is kept of all steps before a place.
    void advance(std::uint64_t taken);

    /// The first that is kept from a number on and may be sent, with its number; without it, where
    /// to look from the next time. Steps before `may` may be sent; of them, where `alone` is given,
    /// those in it. What is kept of others before `may` has been dropped: this process has only not
    /// heard of it yet. Whoever has read a message gives it back.
    struct Next {
        std::uint64_t number = 0;
        std::optional<KeptMessage> kept;
        bool is_to_come = false;  ///< one that may not be sent yet
    };
    Next next(std::uint64_t number, std::uint64_t may,
              const std::optional<std::set<std::uint64_t>>& alone);
    void give_back(MessagePtr&& message);

    /// Gives back the memory that is there for other messages, and until there is a next one also
    /// what connections still read, as soon as they have read it.
    void free_unused();

    /// From now on a connection hears of messages; a local one has them put where it can read them.
    /// Throws io where the pathway has one.
    void add(BoxReader* reader, int pathway, bool is_local);
    /// Waits until it has done what it was called for. With the last one all is forgotten, and no
    /// other may come: no process of a consumer connects twice.
    void remove(BoxReader* reader);
    /// Ends the connections that are there, and each that comes.
    void end_all();

    std::uint64_t bytes_kept();
    /// With memory that is there for other messages.
    std::uint64_t bytes_held();

private:
    void forget(const std::function<bool(const KeptMessage&)>& which);
    /// Under the lock.
    MessagePtr take_unused(std::size_t bytes);
    MessagePtr take_bare(std::size_t bytes);
    bool takes_segments(std::size_t bytes) const;
    void free_what_nobody_reads();

    std::mutex telling_;  ///< held while readers are told; taken before the lock
    std::mutex lock_;
    std::map<std::uint64_t, KeptMessage> kept_;
    std::uint64_t kept_bytes_ = 0;
    std::uint64_t count_ = 0;            ///< of all that were ever put
    std::map<int, BoxReader*> readers_;  ///< by pathway; changed under both
    std::unordered_map<std::size_t, std::vector<MessagePtr>> unused_;
    /// Segments without memory; the receiver knows them, and would take no others in their place.
    std::unordered_map<std::size_t, std::vector<MessagePtr>> bare_;
    bool has_ended_ = false;
    bool keeps_memory_ = true;
    bool shares_memory_ = false;
    int segments_ = 0;
};

}  // namespace datamover::stream

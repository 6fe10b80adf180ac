// SPDX-License-Identifier: BSD-3-Clause
// Outbox: the messages that a sending process keeps for the consumers of a stream, box by box, and
// the connections that send them.
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
#include <string>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/advanced/pair_part.hpp"
#include "datamover/error.hpp"
#include "plan/compile.hpp"
#include "stream/wire/connection.hpp"
#include "stream/wire/headers.hpp"
#include "stream/wire/message_memory.hpp"

namespace datamover::stream {

/// A message of an array, at its step's place among those of one consumer.
struct KeptMessage {
    std::uint64_t place = 0;
    std::uint32_t array = 0;
    MemoryPtr message;
    std::int64_t number = no_number;  ///< as ChunkHeader's
};

/// Told that a receiving process has taken all steps before a place. Throws io where it cannot
/// have.
using TakenCall = std::function<void(std::uint64_t place)>;

/// What the sending program does that concerns data connections.
enum class News {
    packs,   ///< it has put a message, or packed more of the last one
    hears,   ///< it needs to know what the receiving process has said, where nobody else listens
    leaves,  ///< it waits for what the receiving process says: somebody else listens
    frees    ///< it frees memory: what has been sent is read no more afterwards
};

class DataSender;

/// Called by the sending program and by the threads of data connections.
class Box {
public:
    /// Memory for a message. Throws no_memory.
    MemoryPtr memory(std::size_t bytes);
    /// Keeps a message, and has it sent; but where the connections have ended. `number` is as
    /// ChunkHeader's.
    void put(std::uint64_t place, std::uint32_t array, MemoryPtr message,
             std::int64_t number = no_number);
    /// Tells all connections.
    void tell(News news);
    /// Forgets what is kept of the steps from one place up to another.
    void forget(std::uint64_t begin, std::uint64_t end);

    /// The first that is kept from a number on and is of a step before `may`, with its number;
    /// without it, where to look from the next time.
    struct Next {
        std::uint64_t number = 0;
        std::optional<KeptMessage> kept;
        bool is_to_come = false;  ///< one that may not be sent yet
    };
    Next next(std::uint64_t number, std::uint64_t may);

    /// As MemoryPool's.
    void free_unused() { pool_->free_unused(); }

    /// From now on a connection hears of messages; a local one has them put where it can read them.
    /// Throws io where the pathway has one.
    void add(DataSender* reader, int pathway, bool is_local);
    /// Waits until it has done what it was called for. With the last one all is forgotten, and no
    /// other may come: no process of a consumer connects twice.
    void remove(DataSender* reader);
    /// Ends the connections that are there, and each that comes.
    void end_all();

    std::uint64_t bytes_kept();
    /// With memory that is there for other messages.
    std::uint64_t bytes_held() const { return pool_->bytes_held(); }

private:
    std::mutex telling_;  ///< held while readers are told; taken before the lock
    std::mutex lock_;
    std::map<std::uint64_t, KeptMessage> kept_;
    std::uint64_t kept_bytes_ = 0;
    std::uint64_t count_ = 0;             ///< of all that were ever put
    std::map<int, DataSender*> readers_;  ///< by pathway; changed under both
    bool has_ended_ = false;
    const std::shared_ptr<MemoryPool> pool_ = std::make_shared<MemoryPool>();
};

struct SendingHabits {
    /// What receiving processes say the program may hear later, where it comes often.
    bool may_hear_later = false;
    bool is_one_of_several = false;  ///< processes that send
};

/// In its box from its beginning to its end. What is short and can be sent at once, the sending
/// program sends itself, and it hears then what it needs to hear; a thread sends what is left, and
/// listens where the program does not come.
class DataSender {
public:
    /// Adds what it sends to `bytes_sent`; calls `taken`, if any, where the receiving process says
    /// that all steps before a place are. Throws io where there can be no
    /// more.
    DataSender(const Connection& connection, Box& box, int pathway, int pathways,
               SendingHabits habits, std::atomic<std::uint64_t>& bytes_sent, TakenCall taken = {});
    ~DataSender();

    /// Goes on until the connection ends: returns by an error alone.
    [[noreturn]] void serve();

    /// Called by the sending program. Does not wait, nor throw.
    void tell(News news);
    /// Called under the box's lock.
    void end();

    // For tests: so long the thread leaves listening to a program that was here.
    inline static std::atomic<int> patience_milliseconds{2};

private:
    /// A message that is kept while a part of it is sent.
    struct Sending {
        KeptMessage kept;
        std::uint64_t at = 0, end = 0;  ///< of its bytes, from where to where chunks are to begin
        bool is_shared = false;
    };

    static constexpr Clock::time_point long_ago = Clock::time_point::min();

    void sends_more();
    std::unique_lock<std::mutex> entered();
    void tell_taken(std::unique_lock<std::mutex> lock);

    // Under the lock.
    bool hear_grants();
    void obey(const Grant& grant);
    void send_what_goes(std::uint64_t most);
    bool begin_next();
    void limit_kept(std::uint64_t bytes);
    bool begin_chunk();
    bool is_sent() const { return header_.empty() && body_.empty(); }
    /// Of the message that it sends no more has been packed yet.
    bool waits_for_packing() const;

    const Connection& connection_;
    Box& box_;
    const bool loops_back_, stays_here_;  ///< what it sends: on this machine, by sockets or at all
    const std::uint64_t most_at_once_;    ///< of a message, by the program
    const int pathway_, pathways_;
    const SendingHabits habits_;
    const Event wake_;

    std::mutex lock_;
    std::vector<std::byte> grants_;        ///< of which the last is not whole
    bool rests_ = false;                   ///< the thread does not listen
    bool waits_ = false;                   ///< there is a message that may not be sent yet
    std::atomic<bool> sends_long_{false};  ///< more than the program sends itself
    /// When it was here last; not under the lock.
    std::atomic<Clock::time_point> program_left_{long_ago};
    std::uint64_t next_ = 0, may_ = 0;
    std::optional<Error> wrong_;  ///< with what was granted: nothing more is heard, nor sent
    std::optional<Sending> sending_;
    /// What is left to send of the last chunk: its header, then its bytes, or with it the file of
    /// where they lie.
    std::span<const std::byte> header_, body_;
    ChunkHeader sealed_;
    Descriptor file_{-1};
    Clock::time_point taken_ = Clock::now();  ///< when the system took something last
    int kept_limit_ = 0;                      ///< of what the system keeps; 0: its own
    std::set<std::uint64_t> known_segments_;
    std::uint64_t said_taken_ = 0, told_taken_ = 0;  ///< all steps before this place
    const TakenCall taken_call_;
    std::atomic<std::uint64_t>& bytes_sent_;
};

/// The memory of an array.
struct SourceMemory {
    const std::byte* data = nullptr;
    AddressBounds bounds;
};

/// What goes to one process of a consumer: a message as pieces, stored one after the other in it.
class Outgoing {
public:
    /// Messages of no more bytes are one piece. With pieces of 1 MiB, both ends of a connection
    /// wait for each other more often: 0.72 to 0.8 of the speed; with those of 8 MiB, 1.5 times it.
    static constexpr std::int64_t least_bytes = 1 << 20;
    /// With the elements that it is packed from, a piece fits into a processor's own cache.
    static constexpr std::int64_t most_bytes = 1 << 18;

    /// A message that is one piece.
    Outgoing(int peer, AddressRelation whole);
    /// Throws as plan::compile.
    Outgoing(int peer, const PairPart& part, const plan::RelationSide& from,
             const plan::RelationSide& message);

    int peer() const { return peer_; }
    std::int64_t bytes() const { return bytes_; }
    /// A piece of a message: packed by `pack`.
    struct Piece {
        int peer = 0;
        MemoryPtr message;
        std::size_t begin = 0, end = 0;  ///< in the message
        BoundCopy pack;
    };
    /// Adds the pieces of a message. Throws as AddressRelation::bind_gather.
    void bind(SourceMemory source, const MemoryPtr& message, std::vector<Piece>& pieces) const;

private:
    struct Part {
        std::size_t shape = 0;
        std::int64_t source_shift_bytes = 0, bytes = 0;
    };
    int peer_;
    std::int64_t bytes_;
    std::vector<AddressRelation> shapes_;
    std::vector<Part> parts_;
};

/// Packed messages by consumer and receiving process. `serve` is called by a thread for each data
/// connection, all else by the sending program. No call needs MPI.
class Outbox {
public:
    /// Throws invalid_argument unless pathways are 1 to max_pathways.
    explicit Outbox(int pathways, SendingHabits habits = {});

    /// Lets a consumer of so many processes connect, under a key that it alone knows.
    void open(const std::string& key, int nprocs);
    /// Packs an array for a consumer and has it sent as soon as that is granted; `number` is as
    /// ChunkHeader's. On an error nothing of it is kept. Throws as AddressRelation::bind_gather,
    /// and no_memory.
    void pack(const std::string& key, std::uint64_t place, std::uint32_t array,
              std::span<const Outgoing> outgoing, SourceMemory source,
              std::int64_t number = no_number);
    /// Tells all connections.
    void tell(News news);
    /// Forgets what is kept of the steps from one place up to another.
    void forget_steps(const std::string& key, std::int64_t begin, std::int64_t end);
    /// Ends the connections of a consumer.
    void end(const std::string& key);
    /// Forgets a consumer that has gone, and ends its connections.
    void forget(const std::string& key);

    /// Gives the memory of messages back: of all, which have been taken; or of those that were.
    void free_all();
    void free_unused();

    /// Sends over a data connection until it ends, which is always an error: peer_failed, timeout,
    /// or io where what came makes no sense. `taken` is called as DataSender's.
    void serve(const Connection& connection, const std::string& key, std::int64_t rank,
               std::int64_t pathway, TakenCall taken = {});

    /// The consumers that may connect.
    std::vector<std::string> keys();
    std::uint64_t bytes_kept();
    /// With memory that is there for other messages.
    std::uint64_t bytes_held();
    std::uint64_t bytes_sent() const { return bytes_sent_; }

private:
    using Boxes = std::vector<std::shared_ptr<Box>>;
    /// Empty for a consumer that has gone.
    Boxes boxes_of(const std::string& key);
    Boxes all_boxes();

    const int pathways_;
    const SendingHabits habits_;
    std::mutex lock_;
    std::map<std::string, Boxes> boxes_;
    std::atomic<std::uint64_t> bytes_sent_{0};
};

}  // namespace datamover::stream

// SPDX-License-Identifier: BSD-3-Clause
// Outbox: the messages that a sending process keeps for the consumers of a stream, and the
// connections that send them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/advanced/pair_part.hpp"
#include "plan/compile.hpp"
#include "stream/sender/box.hpp"
#include "stream/sender/data_sender.hpp"
#include "stream/wire/connection.hpp"

namespace datamover::stream {

/// The memory of an array.
struct SourceMemory {
    const std::byte* data = nullptr;
    AddressBounds bounds;
};

/// A message as pieces, stored one after the other in it.
class PackingPieces {
public:
    /// Messages of no more bytes are packed at once. With pieces of 1 MiB, both ends of a
    /// connection wait for each other more often: 0.72 to 0.8 of the speed; with those of 8
    /// MiB, 1.5 times it.
    static constexpr std::int64_t least_bytes = 1 << 20;
    /// With the elements that it is packed from, a piece fits into a processor's own cache.
    static constexpr std::int64_t most_bytes = 1 << 18;

    /// The pieces of a message to a process: none if it is short. Throws as plan::compile.
    PackingPieces(const PairPart& part, const plan::RelationSide& from,
                  const plan::RelationSide& message);

    bool empty() const { return pieces_.empty(); }
    /// Packs one piece.
    struct Bound {
        BoundCopy pack;
        std::size_t end = 0;  ///< in the message
    };
    /// Throws as AddressRelation::bind_gather.
    std::vector<Bound> bind(SourceMemory source, std::byte* message) const;

private:
    struct Piece {
        std::size_t shape = 0;
        std::int64_t source_shift_bytes = 0, bytes = 0;
    };
    std::vector<AddressRelation> shapes_;
    std::vector<Piece> pieces_;
};

/// What goes to one process of a consumer.
struct Outgoing {
    int peer = 0;
    const AddressRelation* relation = nullptr;
    /// Of a long message, which is packed piece by piece; else null.
    const PackingPieces* pieces = nullptr;
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
    /// The sending program hears what receiving processes have said, where nobody else listens; or
    /// has others listen, since it waits for that.
    void hear();
    void leave();
    /// Forgets what is kept of a step.
    void drop(const std::string& key, std::uint64_t place);
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
    struct Packing;
    using Boxes = std::vector<std::shared_ptr<Box>>;
    static Packing packed(Box& box, const Outgoing& outgoing, SourceMemory source);
    static void put(Box& box, std::uint64_t place, std::uint32_t array, const Packing& packing,
                    std::int64_t number);
    /// Empty for a consumer that has gone.
    Boxes boxes_of(const std::string& key);
    Boxes all_boxes();
    /// Throws as `serve`.
    std::shared_ptr<Box> box_of(const std::string& key, std::int64_t rank);

    const int pathways_;
    const SendingHabits habits_;
    std::mutex lock_;
    std::map<std::string, Boxes> boxes_;
    std::atomic<std::uint64_t> bytes_sent_{0};
};

}  // namespace datamover::stream

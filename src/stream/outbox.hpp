// SPDX-License-Identifier: BSD-3-Clause
// What does a sending process keep for the consumers of a stream, and over what is it sent?
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "datamover/address_relation.hpp"
#include "stream/box.hpp"

namespace datamover::stream {

/// What goes to one process of a consumer.
struct Outgoing {
    int peer = 0;
    const AddressRelation* relation = nullptr;
};

/// Where an array lies.
struct SourceMemory {
    const std::byte* data = nullptr;
    AddressBounds bounds;
};

/// What the connections of an outbox did so far.
struct OutboxCounters {
    std::atomic<std::uint64_t> bytes_sent{0};
    std::atomic<std::uint64_t> refused{0};  ///< ended since what came made no sense
    std::atomic<int> connections{0};        ///< that there are now
};

/// Packed messages by consumer and receiving process. Each data connection has a thread, which
/// calls neither MPI nor anything of the program's. All calls but `serve` are the sending
/// program's.
class Outbox {
public:
    /// Connections at the same time.
    static constexpr int max_connections = 1024;

    /// Throws invalid_argument unless pathways are 1 to max_pathways.
    explicit Outbox(int pathways);
    ~Outbox() { close(); }
    Outbox(const Outbox&) = delete;
    Outbox& operator=(const Outbox&) = delete;

    /// Lets a consumer of so many processes connect, under a key that it alone knows.
    void open(const std::string& key, int nprocs);
    /// Packs an array for a consumer and has it sent as soon as that is granted. On an error
    /// nothing of it is kept. Throws as AddressRelation::bind_gather, and no_memory.
    void pack(const std::string& key, std::uint64_t place, std::uint32_t array,
              std::span<const Outgoing> outgoing, SourceMemory source);
    /// Forgets what is kept of a step.
    void drop(const std::string& key, std::uint64_t place);
    /// Forgets a consumer that has gone, and ends its connections.
    void forget(const std::string& key);

    /// Has a thread send over a data connection until it ends. Takes the socket over, also on
    /// errors. Throws io where no consumer has this key, process or pathway, where there are too
    /// many connections.
    void serve(int socket, const std::string& key, std::int64_t rank, std::int64_t pathway);
    /// Ends all connections. Does nothing in a forked process, whose parent they belong to.
    void close();

    /// The consumers that may connect.
    std::vector<std::string> keys();
    std::uint64_t bytes_kept();
    const OutboxCounters& counters() const { return *counters_; }

private:
    using Boxes = std::vector<std::shared_ptr<Box>>;
    /// Empty for a consumer that has gone.
    Boxes boxes_of(const std::string& key);
    /// Throws as `serve`.
    std::shared_ptr<Box> box_of(const std::string& key, std::int64_t rank);

    const int pathways_;
    std::mutex lock_;
    std::map<std::string, Boxes> boxes_;
    const int process_;
    /// Outlives the outbox as long as there are connections.
    std::shared_ptr<OutboxCounters> counters_ = std::make_shared<OutboxCounters>();
};

}  // namespace datamover::stream

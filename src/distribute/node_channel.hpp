// SPDX-License-Identifier: BSD-3-Clause
// How do the processes of a node tell each other counts and addresses without a message?
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "memory/segment_pool.hpp"
#include "mpi/process_group.hpp"

namespace datamover::distribute {

/// Columns whose places one letter can name.
inline constexpr std::size_t letter_columns = 32;

/// A place in shared memory, as another process of the node can find it.
struct Place {
    memory::SegmentName name;
    std::int64_t offset_bytes = 0;
};

/// What a letter says about the elements of a pair.
enum class LetterKind : std::int64_t {
    shared,    ///< lie (or may be written) at the places
    private_,  ///< cannot be reached: send them another way
    done,      ///< have been written to where they were wanted
};

/// What one process tells another of its node. Written by one, read by one; a new one is written
/// only after the reader has answered the one before.
struct Letter {
    LetterKind kind = LetterKind::private_;
    std::int64_t elems = 0;
    std::array<Place, letter_columns> places;
};

/// Mailboxes in shared memory between all pairs of a node, made once per communicator. Every wait
/// spins, then yields.
class NodeChannel {
public:
    /// The channel of a group. Collective on the node at the first call for a group, then local.
    static std::shared_ptr<NodeChannel> of(mpi::ProcessGroup& group);

    /// Processes of this node, this one included; 1 where there is no shared memory.
    int size() const { return static_cast<int>(ranks_.size()); }
    int me() const { return me_; }
    int rank_of(int position) const { return ranks_[static_cast<std::size_t>(position)]; }
    /// Position of a rank on this node, or -1.
    int position(std::int64_t rank) const;
    /// True when the communicator goes beyond this node.
    bool messages_needed() const { return messages_needed_; }

    /// Tells each process of the node two numbers, and hears theirs. `post` never waits. Collective
    /// on the node.
    struct Numbers {
        std::int64_t count = 0;
        std::int64_t status = 0;
    };
    void post(const std::vector<Numbers>& to_each);
    std::vector<Numbers> collect();

    /// Opens, answers, and acknowledges: three one-way streets per pair.
    enum Street : std::size_t { opening = 0, answer = 1 };
    Letter& draft(Street street, int position);
    void send(Street street, int position);
    /// The next letter, or nullptr while it has not come.
    const Letter* receive(Street street, int position);
    const Letter& await(Street street, int position);
    void acknowledge(int position);
    bool acknowledged(int position);

    /// The address of a place of another process, mapped at its first use; good until `trim`.
    std::byte* address(int position, const Place& place);
    /// Lets mappings go where there are many.
    void trim();

    /// Pooled memory of results is remembered for as long as it lives, so that it is known again
    /// when a caller hands it back as a result. Null for other memory.
    void remember(const memory::AllocationPtr& memory);
    memory::AllocationPtr remembered(const std::byte* data) const;

    /// Gives the processor away for a moment, and lets MPI work.
    class Wait;

private:
    struct alignas(64) SetupLine {
        std::atomic<std::uint64_t> epoch;
        Numbers numbers;
    };
    struct alignas(64) LetterBox {
        std::atomic<std::uint64_t> number;
        Letter letter;
    };
    struct alignas(64) Mailbox {
        SetupLine setup[2];
        LetterBox letters[2];
        alignas(64) std::atomic<std::uint64_t> acknowledged;
    };
    struct Peer {
        Mailbox* theirs = nullptr;  ///< in the peer's memory: written here
        std::shared_ptr<memory::SharedSegment> segment;
        std::uint64_t sent[2] = {0, 0}, received[2] = {0, 0};
        std::uint64_t acks_sent = 0, acks_received = 0;
        std::map<memory::SegmentName, std::shared_ptr<memory::SharedSegment>> mapped;
    };

    explicit NodeChannel(mpi::ProcessGroup& group);
    Mailbox& mine(int position) { return boxes_[position]; }

    std::vector<int> ranks_;
    int me_ = 0;
    bool messages_needed_ = false;
    int spins_ = 0;
    MPI_Comm comm_ = MPI_COMM_NULL;
    memory::AllocationPtr memory_;
    Mailbox* boxes_ = nullptr;
    std::vector<Peer> peers_;
    std::shared_ptr<memory::SegmentMap> segments_;
    std::uint64_t epoch_ = 0;
    std::map<const std::byte*, std::weak_ptr<const memory::Allocation>> results_;
};

/// Waits for something on the node: spins, then yields, and pokes MPI where messages are used too.
class NodeChannel::Wait {
public:
    explicit Wait(const NodeChannel& channel);
    void pause();

private:
    MPI_Comm comm_;
    int spins_left_;
    int turns_ = 0;
};

}  // namespace datamover::distribute

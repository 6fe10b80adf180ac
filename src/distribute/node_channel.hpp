// SPDX-License-Identifier: BSD-3-Clause
// Mailboxes in shared memory: counts and addresses for the processes of a node, without messages.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "memory/segment_pool.hpp"
#include "mpi/message_tags.hpp"
#include "mpi/process_group.hpp"

namespace datamover::distribute {

/// Columns whose places one offer can name.
inline constexpr std::size_t offered_columns = 32;
/// Operations of a communicator that may be in flight at the same time.
inline constexpr int most_in_flight = 8;

/// What an offer says about the elements of a pair.
enum class OfferKind : std::int64_t {
    reachable,    ///< they lie, or may be written, at the places
    unreachable,  ///< they come, or are wanted, in a message
    done,         ///< they have been written to where they were wanted
};

/// What one process tells another of its node. Written by one, read by one.
struct Offer {
    OfferKind kind = OfferKind::unreachable;
    std::int64_t elems = 0;
    std::size_t parts = 0;  ///< that they lie in
    std::array<memory::SharedPlace, offered_columns> places;
};

/// What offers are about: windows into which the other may write, or elements that it may take.
enum class Topic : std::size_t { windows = 0, elements = 1 };

/// A process's notice as numbers of which the largest of all processes tells all: whether it failed
/// or is limited, its signature and the negative of that.
using NoticeNumbers = std::array<std::int64_t, 4>;

class NodeChannel;

/// The mailboxes of one operation in flight. A peer begins the next operation with them only after
/// all of the node have told it numbers, which they do when the one before is complete.
class NodeSlot {
public:
    /// What each process of the node tells each other one. Never waits.
    struct Numbers {
        std::int64_t count = 0;
        NoticeNumbers notice{};
    };
    void post(const std::vector<Numbers>& to_each);
    /// True when those of all others have come; then `collected` has them.
    bool collect();
    const std::vector<Numbers>& collected() const { return collected_; }

    Offer& prepare(Topic topic, int position);
    void publish(Topic topic, int position);
    /// The next offer, or nullptr while it has not come.
    const Offer* take(Topic topic, int position);
    void acknowledge(int position);
    bool acknowledged(int position);

    /// Of the messages of this operation, and of those that count its elements: a process may send
    /// elements while another one still looks for counts.
    int tag() const { return tag_; }
    int count_tag() const { return tag_ + 1; }

private:
    friend class NodeChannel;
    friend class SlotClaim;

    struct alignas(64) NumbersBox {
        std::atomic<std::uint64_t> epoch;
        Numbers numbers;
    };
    struct alignas(64) OfferBox {
        std::atomic<std::uint64_t> number;
        Offer offer;
    };
    struct alignas(64) Mailbox {
        NumbersBox numbers[2];
        OfferBox offers[2];
        alignas(64) std::atomic<std::uint64_t> acknowledged;
    };
    struct Peer {
        Mailbox* mine = nullptr;    ///< in this process's memory: read here
        Mailbox* theirs = nullptr;  ///< in the peer's memory: written here
        std::uint64_t published[2] = {0, 0}, taken[2] = {0, 0};
        std::uint64_t acks_sent = 0, acks_seen = 0;
    };
    Peer& peer(int position) { return peers_[static_cast<std::size_t>(position)]; }

    int me_ = 0, tag_ = 0;
    std::mutex lock_;  ///< of the next three; held for no longer than a push
    bool in_use_ = false;
    std::uint64_t claimed_as_ = 0;       ///< the number of the claim that has it
    std::function<bool()> is_complete_;  ///< pushes on an operation that may have to give it up
    // Of the thread that pushes the operation on.
    std::uint64_t epoch_ = 0;
    std::vector<Peer> peers_;
    std::vector<Numbers> collected_;
};

/// Mailboxes in shared memory between all pairs of a node, made once per communicator. Claims are
/// made by one thread at a time, in the calls of all processes; any thread ends them, and any
/// pushes operations on.
class NodeChannel {
public:
    /// The channel of a group. Collective on the node at the first call for a group, then local.
    static std::shared_ptr<NodeChannel> of(mpi::ProcessGroup& group);

    /// Processes of this node, this one included; 1 where there is no shared memory.
    int size() const { return static_cast<int>(ranks_.size()); }
    const std::vector<int>& ranks() const { return ranks_; }
    int rank_of(int position) const { return ranks_[static_cast<std::size_t>(position)]; }
    /// Position of a rank on this node, or -1.
    int position(std::int64_t rank) const;
    /// True when the communicator goes beyond this node.
    bool messages_needed() const { return messages_needed_; }

    /// Throws invalid_state where as many moves have been started here, and not waited for, as
    /// there may be.
    void check_room() const;
    /// The next slot in turn, for one operation that all processes begin. Where an earlier
    /// operation still has it, that is completed first: all processes take the same slots, whatever
    /// each has waited for. Throws invalid_state where another thread has it.
    NodeSlot& claim();
    /// Ends a claim, by its number. Never waits for other processes.
    void release(NodeSlot& slot, std::uint64_t claimed_as);
    /// A number for a migration, the same on all processes.
    std::int64_t next_migration() { return ++migrations_; }

    /// The address of a place of another process, mapped at its first use; good while an operation
    /// is in flight. From any thread.
    std::byte* address(const memory::SharedPlace& place);

private:
    explicit NodeChannel(mpi::ProcessGroup& group);
    bool connect(mpi::ProcessGroup& group);

    // Set by the constructor.
    const mpi::ProcessGroup& group_;
    std::vector<int> ranks_;
    int me_ = 0;
    bool messages_needed_ = false;
    mpi::ClaimedTags tags_;
    mpi::NodeShares memory_;
    // Of the thread in a call of all processes.
    std::uint64_t claims_ = 0;
    std::int64_t migrations_ = 0;
    // Of any thread.
    std::atomic<int> in_flight_{0};
    std::mutex mapped_lock_;
    std::map<memory::SegmentName, std::shared_ptr<memory::SharedSegment>> mapped_;
    std::array<NodeSlot, most_in_flight> slots_;
};

/// A slot for as long as this object lives.
class SlotClaim {
public:
    explicit SlotClaim(std::shared_ptr<NodeChannel> channel)
        : channel_(std::move(channel)),
          slot_(&channel_->claim()),
          claimed_as_(slot_->claimed_as_) {}
    ~SlotClaim() { release(); }
    SlotClaim(SlotClaim&&) = default;

    NodeSlot& slot() const { return *slot_; }
    /// When the slot is wanted for another operation, this one is pushed on by `is_complete` until
    /// that is true. From then on the slot is not to be used here.
    void give_up_after(std::function<bool()> is_complete) {
        const std::lock_guard lock(slot_->lock_);
        slot_->is_complete_ = std::move(is_complete);
    }
    /// Ends the claim before this object goes: `is_complete` is not called any more.
    void release() {
        if (channel_) channel_->release(*slot_, claimed_as_);
        channel_.reset();
    }

private:
    std::shared_ptr<NodeChannel> channel_;
    NodeSlot* slot_;
    std::uint64_t claimed_as_;
};

}  // namespace datamover::distribute

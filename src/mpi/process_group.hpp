// SPDX-License-Identifier: BSD-3-Clause
// Process groups: the library's private view of a user's communicator.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <typeindex>
#include <vector>

#include "datamover/error.hpp"
#include "failure_board.hpp"
#include "memory/segment_pool.hpp"
#include "waiting.hpp"

namespace datamover::mpi {

class MessageTags;
class ProcessGroup;
using ProcessGroupPtr = std::shared_ptr<ProcessGroup>;

/// Memory of each process of a node, which all of them have mapped.
struct NodeShares {
    std::string why_not;  ///< it does not work between them; empty: it does
    memory::AllocationPtr own;
    std::vector<std::byte*> data;  ///< of each process, in order of node_ranks
    std::vector<std::shared_ptr<memory::SharedSegment>> mapped;
};

/// What is waited for: MPI moves data of any size only while it is polled, so that nobody sleeps.
enum class Load { numbers, data };

/// The library's private view of a user's communicator: a duplicate with MPI_ERRORS_RETURN, the
/// processes of this node, the pool of shared memory. Made once per user communicator and cached on
/// it.
class ProcessGroup {
public:
    /// The group of a communicator. Collective at the first call for a communicator, then local.
    /// Throws mpi, or invalid_argument for MPI_COMM_NULL and intercommunicators.
    static ProcessGroupPtr of(MPI_Comm user_comm);
    ~ProcessGroup();
    ProcessGroup(const ProcessGroup&) = delete;
    ProcessGroup& operator=(const ProcessGroup&) = delete;

    /// For messages and operations that this class does not know of.
    MPI_Comm comm() const {
        if (!may_be_busy_.load(std::memory_order_relaxed)) may_be_busy_.store(true);
        return comm_;
    }
    int rank() const { return rank_; }
    int size() const { return size_; }

    /// The ranks on this process's node (of DATAMOVER_NODE_SIZE processes where that is set),
    /// ascending; one entry when shared memory does not work here.
    const std::vector<int>& node_ranks() const { return node_ranks_; }
    /// Position of a rank among node_ranks, or -1 when it is on another node. O(log n).
    int node_position(std::int64_t rank) const;
    int my_node_position() const { return my_node_position_; }
    /// Whether a process runs on the same machine, whatever DATAMOVER_NODE_SIZE says.
    bool on_same_machine(std::int64_t rank) const;

    /// Shared where there are more processes on the real node than processors that they may run on.
    Processors processors() const { return processors_; }
    /// Why this process shares no memory with others of its node; empty where it does, or is alone.
    const std::string& why_no_shared_memory() const { return why_no_shared_memory_; }

    memory::SegmentPool& pool() const { return memory::SegmentPool::of_process(); }
    memory::SegmentMap& segments() const { return memory::SegmentMap::of_process(); }

    /// The one object of a type that other code keeps with the group; `make` returns it, or throws,
    /// at the first call. It is destroyed with the group; if a process has failed, possibly never.
    /// Only for the thread in a collective call.
    template <class Value, class Make>
    std::shared_ptr<Value> extension(Make&& make) const {
        std::shared_ptr<void>& kept = extensions_[typeid(Value)];
        if (!kept) kept = std::shared_ptr<Value>(make());
        return std::static_pointer_cast<Value>(kept);
    }

    /// Whether the processes of this node may read each other's memory. DATAMOVER_PEER_READS=0:
    /// they shall not.
    bool peers_readable() const { return peers_readable_; }

    /// A number of the node of each rank (the lowest rank there). Collective at the first call,
    /// then local.
    std::span<const std::int64_t> nodes();

    /// Shares so much memory of each process of the node, in which `make` has objects of this one.
    /// Collective on the node.
    NodeShares share_on_node(std::int64_t bytes, const std::function<void(std::byte*)>& make) const;

    /// For messages.
    MessageTags& tags() const { return *tags_; }

    /// Operations in which all processes of the group take part come one after the other, in the
    /// order of the movers' starts. Makes the communicator that they have for themselves.
    /// Collective at the first call, then local.
    void prepare_tickets();
    MPI_Comm ticket_comm() const { return turns_comm_; }
    /// The next turn, the same on all processes that take turns in the same order.
    std::uint64_t take_ticket() { return next_ticket_.fetch_add(1, std::memory_order_relaxed); }
    /// Whether those before it have ended, and no other process of the node is too far behind.
    bool is_served(std::uint64_t ticket) const {
        return served_ticket_.load(std::memory_order_acquire) == ticket &&
               board_->may_claim_ticket(ticket);
    }
    /// Uses a turn for the binding `number`. Throws mismatch where another process of the node uses
    /// it for another binding.
    void claim_ticket(std::uint64_t ticket, int number) const {
        board_->claim_ticket(ticket, number);
    }
    void serve_next() { served_ticket_.fetch_add(1, std::memory_order_release); }

    /// An MPI call failed here: all processes are told, and from now on whatever they do with this
    /// group throws peer_failed. Local, never waits.
    void fail(const Error& why) const noexcept {
        if (board_) board_->notify(why);
    }
    /// The same for all groups of this process. Does nothing where MPI does not run.
    static void fail_all(const Error& why) noexcept;
    /// The failure of another process that `why` follows from, else `why`. Local.
    Error cause_of(const Error& why) const { return board_ ? board_->cause_of(why) : why; }
    // Before there are boards, which the first exchanges set up, no failure can be reported to the
    // other processes, nor by them.

    /// Throws peer_failed once a process of the group has failed. Local; one load.
    void check_alive() const {
        if (board_) board_->check();
    }
    /// The same for loops that wait: also looks for news from other nodes.
    void check_alive_while_waiting() const {
        if (board_) board_->check_while_waiting();
    }
    /// Lets MPI go on with what the program has under way with it: a peer may wait in a send for a
    /// receive that was begun here, before it comes to what this process waits for. Does nothing on
    /// a thread that may not call MPI. About a microsecond.
    void let_mpi_progress() const noexcept;
    /// Waits for a request; throws mpi, or peer_failed when meanwhile a process has failed.
    void complete(MPI_Request& request, const char* call, Load load = Load::numbers) const;
    /// Waits until done() says so, for others to make the same call, or in a call of MPI's. Throws
    /// timeout, peer_failed, Interrupted.
    void wait_until(const std::function<bool()>& done, Load load = Load::numbers,
                    const char* call = nullptr) const;
    /// Begins a non-blocking collective operation of MPI and waits for it. `memory` is what it
    /// touches: kept where it cannot end. Whatever goes wrong is told to all processes.
    void carry_out(const char* call, std::shared_ptr<const void> memory,
                   const std::function<int(MPI_Request*)>& begin, Load load = Load::numbers) const;
    /// Keeps memory that processes of this node may still write to, until all of them have left the
    /// group. Local, from any thread.
    void keep(std::shared_ptr<const void> memory) const noexcept;
    /// Keeps memory that an operation of MPI which can never end may still touch, forever. Local,
    /// from any thread; takes no memory.
    void abandon(std::shared_ptr<const void> memory) const noexcept;

    // Where all processes are on one node, agree, maximum, all_equal and gather take no call of MPI
    // for a few numbers of each.

    /// All processes call it; if any brings an error, all throw that of the lowest rank.
    /// Collective.
    void agree(const std::optional<Error>& mine) const;
    /// Throws on all processes the error that process `rank` has. Collective.
    [[noreturn]] void throw_error_of(int rank, const std::optional<Error>& mine) const;
    /// Collective: the text of process `rank`.
    std::string broadcast(int rank, std::string text) const;
    /// Collective: the largest of each value over all processes.
    std::vector<std::int64_t> maximum(std::vector<std::int64_t> values) const;
    /// Collective: whether all processes bring the same value.
    bool all_equal(std::uint32_t value) const;
    /// Collective: takes a value for each rank, gives the value that each rank had for this one.
    std::vector<std::int64_t> exchange(std::vector<std::int64_t> values) const;
    /// Collective on the node: every process's values, in order of node_ranks. Makes no MPI call if
    /// the group has several nodes.
    std::vector<std::vector<std::int64_t>> gather_on_node(
        const std::vector<std::int64_t>& values) const;
    /// Collective: every process's values, in order of rank.
    std::vector<std::vector<std::int64_t>> gather(const std::vector<std::int64_t>& values) const;

private:
    explicit ProcessGroup(MPI_Comm user_comm);
    void find_node();
    bool all_on_node(bool mine) const;
    void create_failure_boards();
    bool is_one_node() const { return std::ssize(node_ranks_) == size_; }
    std::vector<std::int64_t> largest(FailureBoard::Question question,
                                      std::vector<std::int64_t> values) const;
    std::vector<std::vector<std::int64_t>> allgather_on_node(
        FailureBoard::Question question, std::span<const std::int64_t> mine) const;
    std::vector<std::vector<std::int64_t>> gather_of_node(
        const std::vector<std::int64_t>& values) const;
    std::vector<std::vector<std::int64_t>> gather_of_all(
        const std::vector<std::int64_t>& values) const;

    // A group is used by the thread that makes a collective call, of which a communicator has one
    // at a time, and meanwhile by every thread that pushes rounds on, or lets movers and
    // distributions go.

    // Set by the constructor, then read by any thread.
    MPI_Comm comm_ = MPI_COMM_NULL;
    int rank_ = 0, size_ = 1, my_node_position_ = 0;
    std::vector<int> node_ranks_, machine_ranks_;
    Processors processors_ = Processors::shared;
    std::string why_no_shared_memory_;
    bool peers_readable_ = false;
    std::unique_ptr<FailureBoard> board_;  ///< locks by itself

    // Of the thread in a collective call: nothing that a round does needs them. The communicator of
    // turns is set before the first mover that takes turns is bound, and read by its rounds.
    MPI_Comm turns_comm_ = MPI_COMM_NULL;
    mutable std::map<std::type_index, std::shared_ptr<void>> extensions_;
    std::shared_ptr<MessageTags> tags_;
    std::vector<std::int64_t> nodes_;

    // Of any thread.
    std::atomic<std::uint64_t> next_ticket_{0}, served_ticket_{0};
    mutable std::atomic<std::uint64_t> next_agreement_{0};
    /// Whether operations of MPI may be under way that this class does not know to have ended.
    mutable std::atomic<bool> may_be_busy_{false};
    mutable std::mutex kept_lock_;
    mutable std::vector<std::shared_ptr<const void>> kept_;  ///< under kept_lock_
};

/// The current exception as an Error, or the failure of another process that it follows from; for
/// use in a catch block. If memory is too short for a message, one at hand.
Error current_error(const ProcessGroup& group) noexcept;

/// Runs `work` and, whether it throws or not, and whatever it throws, agrees with all processes of
/// the group on the outcome. Collective.
template <class Work>
void collectively(const ProcessGroup& group, Work&& work) {
    std::optional<Error> mine;
    try {
        work();
    } catch (...) {
        mine = current_error(group);
    }
    group.agree(mine);
}

}  // namespace datamover::mpi

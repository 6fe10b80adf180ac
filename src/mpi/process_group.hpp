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
#include <string>
#include <typeindex>
#include <vector>

#include "datamover/error.hpp"
#include "failures.hpp"
#include "memory/segment_pool.hpp"
#include "waiting.hpp"

namespace datamover::mpi {

class MessageTags;
class ProcessGroup;
using ProcessGroupPtr = std::shared_ptr<ProcessGroup>;

/// Where the processes of a group run, as one of them sees it. Set when the group is made.
struct Node {
    int rank = 0, group_size = 1;  ///< of this process, of the group
    /// The ranks on this process's node (of DATAMOVER_NODE_SIZE processes where that is set),
    /// ascending; one entry when shared memory does not work here.
    std::vector<int> ranks;
    int my_position = 0;  ///< of this process among `ranks`
    /// The ranks on the same machine, whatever DATAMOVER_NODE_SIZE says; ascending.
    std::vector<int> machine_ranks;
    /// Shared where there are more processes on the machine than processors that they may run on.
    Processors processors = Processors::shared;
    /// Whether the processes of this node may read each other's memory. DATAMOVER_PEER_READS=0:
    /// they shall not.
    bool peers_readable = false;
    /// Why this process shares no memory with others of its node; empty where it does, or is alone.
    std::string why_no_shared_memory;

    bool is_whole_group() const { return std::ssize(ranks) == group_size; }
    /// Position of a rank among `ranks`, or -1 when it is on another node. O(log n).
    int position(std::int64_t of_rank) const;
    bool is_on_machine(std::int64_t of_rank) const;
};

/// The library's private view of a user's communicator: a duplicate with MPI_ERRORS_RETURN, the
/// processes of this node, failures, agreements. Made once per user communicator and cached on it.
///
/// It is used by the thread that makes a collective call, of which a communicator has one at a
/// time, and meanwhile by every thread that pushes rounds on, or lets movers and distributions go.
class ProcessGroup {
public:
    /// The group of a communicator. Collective at the first call for a communicator, then local.
    /// Throws mpi, or invalid_argument for MPI_COMM_NULL and intercommunicators.
    static ProcessGroupPtr of(MPI_Comm user_comm);
    ~ProcessGroup();

    /// For messages and operations that this class does not know of.
    MPI_Comm comm() const {
        if (!may_be_busy_.load(std::memory_order_relaxed)) may_be_busy_.store(true);
        return comm_;
    }
    int rank() const { return node_.rank; }
    int size() const { return node_.group_size; }
    const Node& node() const { return node_; }
    Failures& failures() const { return *failures_; }
    /// For messages.
    MessageTags& tags() const { return *tags_; }

    /// The one object of a type that other code keeps with the group; `make` returns it, or throws,
    /// at the first call. It is destroyed with the group; if a process has failed, possibly never.
    /// Only for the thread in a collective call.
    template <class Value, class Make>
    std::shared_ptr<Value> extension(Make&& make) const {
        std::shared_ptr<void>& kept = extensions_[typeid(Value)];
        if (!kept) kept = std::shared_ptr<Value>(make());
        return std::static_pointer_cast<Value>(kept);
    }

    /// Keeps memory that processes of this node may still write to, until all of them have left the
    /// group. Local, from any thread.
    void keep(std::shared_ptr<const void> memory) const noexcept;
    /// Keeps memory that an operation of MPI which can never end may still touch, forever. Local,
    /// from any thread; takes no memory.
    void abandon(std::shared_ptr<const void> memory) const noexcept;

    /// Begins a non-blocking collective operation of MPI on the communicator that is passed, and
    /// waits for it. `memory` is what it touches: kept where it cannot end. Whatever goes wrong is
    /// told to all processes.
    void carry_out(const char* call, std::shared_ptr<const void> memory,
                   const std::function<int(MPI_Comm, MPI_Request*)>& begin,
                   Load load = Load::numbers) const;

    // Where all processes are on one node, these take no call of MPI for a few numbers of each.
    // More collectives of a group are in collectives.hpp.

    /// All processes call it; if any brings an error, all throw that of the lowest rank.
    /// Collective.
    void agree(const std::optional<Error>& mine) const;
    /// Collective: the largest of each value over all processes.
    std::vector<std::int64_t> maximum(std::vector<std::int64_t> values) const;
    /// Collective on the node: every process's values, in order of its ranks. Makes no MPI call if
    /// the group has several nodes.
    std::vector<std::vector<std::int64_t>> gather_on_node(
        const std::vector<std::int64_t>& values) const;
    /// Collective: every process's values, in order of rank.
    std::vector<std::vector<std::int64_t>> gather(const std::vector<std::int64_t>& values) const;

private:
    explicit ProcessGroup(MPI_Comm user_comm);

    struct Kept {
        std::mutex lock;
        std::vector<std::shared_ptr<const void>> memory;  ///< under the lock
    };

    // Set by the constructor, then read by any thread.
    MPI_Comm comm_ = MPI_COMM_NULL;
    Node node_;
    std::unique_ptr<Failures> failures_;  ///< locks by itself
    // Of the thread in a collective call: nothing that a round does needs them.
    mutable std::map<std::type_index, std::shared_ptr<void>> extensions_;
    std::shared_ptr<MessageTags> tags_;
    // Of any thread.
    /// Whether operations of MPI may be under way that this class does not know to have ended.
    mutable std::atomic<bool> may_be_busy_{false};
    mutable Kept kept_;
};

/// An MPI call, or the program, failed: fails all groups of this process. Does nothing where MPI
/// does not run.
void fail_all(const Error& why) noexcept;

/// Shares so much memory of each process of the node, in which `make` has objects of this one.
/// Collective on the node.
NodeShares share_on_node(const ProcessGroup& group, std::int64_t bytes,
                         const std::function<void(std::byte*)>& make);

/// The current exception as an Error, or the failure of another process that it follows from; for
/// use in a catch block. If memory is too short for a message, one at hand.
Error current_error(const ProcessGroup& group) noexcept;

/// Returns work(). If it throws, notifies the other processes, which would wait for this one.
template <class Work>
auto notifying_failure(const ProcessGroup& group, Work&& work) {
    try {
        return work();
    } catch (...) {
        group.failures().fail(current_error(group));
        throw;
    }
}

/// The same for calls of all processes that throw an Error on all of them: only what is none, such
/// as bad_alloc, is of this process alone.
template <class Work>
auto notifying_shortage(const ProcessGroup& group, Work&& work) {
    try {
        return work();
    } catch (const Error&) {
        throw;
    } catch (...) {
        group.failures().fail(current_error(group));
        throw;
    }
}

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

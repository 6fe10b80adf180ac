// SPDX-License-Identifier: BSD-3-Clause
// Who takes part, who shares a node with whom, and how do all agree?
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datamover/error.hpp"
#include "failure_board.hpp"
#include "memory/segment_pool.hpp"

namespace datamover::distribute {
class NodeChannel;
struct MethodTimes;
}  // namespace datamover::distribute

namespace datamover::mpi {

class ProcessGroup;
using ProcessGroupPtr = std::shared_ptr<ProcessGroup>;

/// The library's private view of a user's communicator: one duplicate with MPI_ERRORS_RETURN, one
/// communicator per node, the pool of shared memory. Made once per user communicator and cached on
/// it.
class ProcessGroup {
public:
    /// The group of a communicator. Collective at the first call for a communicator, then local.
    /// Throws mpi, or invalid_argument for MPI_COMM_NULL and intercommunicators.
    static ProcessGroupPtr of(MPI_Comm user_comm);
    ~ProcessGroup();
    ProcessGroup(const ProcessGroup&) = delete;
    ProcessGroup& operator=(const ProcessGroup&) = delete;

    MPI_Comm comm() const { return comm_; }
    int rank() const { return rank_; }
    int size() const { return size_; }

    /// The ranks on this process's node (of DATAMOVER_NODE_SIZE processes where that is set),
    /// ascending; one entry when shared memory does not work here.
    const std::vector<int>& node_ranks() const { return node_ranks_; }
    /// Position of a rank among node_ranks, or -1 when it is on another node. O(log n).
    int node_position(std::int64_t rank) const;
    int my_node_position() const { return my_node_position_; }

    memory::SegmentPool& pool() const { return *pool_; }
    memory::SegmentMap& segments() const { return *segments_; }

    /// What the room that distributes elements keeps with the group; null before its first use.
    std::shared_ptr<distribute::NodeChannel>& node_channel() { return node_channel_; }
    std::shared_ptr<const distribute::MethodTimes>& method_times() { return method_times_; }

    /// Whether the processes of every node may read each other's memory, as the room that binds
    /// movers has found out; empty before it has tried.
    std::optional<bool>& peers_readable() { return peers_readable_; }

    /// A message tag for one more mover; the same on all processes that call it in the same order.
    int next_tag();

    /// An MPI call failed here: all processes are told, and from now on whatever they do with this
    /// group throws peer_failed. Local, never waits.
    void fail(const Error& why) const noexcept { board_->tell(why); }
    /// Throws peer_failed once a process of the group has failed. Local; one load.
    void check_alive() const { board_->check(); }
    /// The same for loops that wait: also looks for news from other nodes.
    void check_alive_while_waiting() const { board_->check_while_waiting(); }
    /// Waits for a request; throws mpi, or peer_failed when meanwhile a process has failed.
    void complete(MPI_Request& request, const char* call) const;
    /// Keeps memory that processes of this node may still write to, as long as this group.
    void keep(std::shared_ptr<const void> memory) const { kept_.push_back(std::move(memory)); }
    /// Keeps memory that an operation of MPI which can never end may still touch, for ever.
    void abandon(std::shared_ptr<const void> memory) const {
        abandoned_.push_back(std::move(memory));
    }

    /// All processes call it; if any brings an error, all throw that of the lowest rank.
    /// Collective.
    void agree(const std::optional<Error>& mine) const;
    /// Collective: the largest of each value over all processes.
    std::vector<std::int64_t> maximum(std::vector<std::int64_t> values) const;
    /// Collective: takes a value for each rank, gives the value that each rank had for this one.
    std::vector<std::int64_t> exchange(std::vector<std::int64_t> values) const;
    /// Collective on the node: every process's values, in order of node_ranks.
    std::vector<std::vector<std::int64_t>> gather_on_node(
        const std::vector<std::int64_t>& values) const;

private:
    explicit ProcessGroup(MPI_Comm user_comm);
    void find_node();
    bool put_up_boards();
    bool map_boards(const memory::Allocation* own,
                    std::vector<FailureBoard::PeerBoard>& peers) const;
    template <class Buffers, class Post>
    void run_collective(std::shared_ptr<Buffers> buffers, const char* call, Post&& post) const;

    MPI_Comm comm_ = MPI_COMM_NULL;
    MPI_Comm node_comm_ = MPI_COMM_NULL;
    int rank_ = 0, size_ = 1, my_node_position_ = 0, tag_count_ = 0, tag_limit_ = 32767;
    std::vector<int> node_ranks_;
    std::shared_ptr<memory::SegmentPool> pool_;
    std::shared_ptr<memory::SegmentMap> segments_;
    std::unique_ptr<FailureBoard> board_;
    mutable std::vector<std::shared_ptr<const void>> kept_, abandoned_;
    std::shared_ptr<distribute::NodeChannel> node_channel_;
    std::shared_ptr<const distribute::MethodTimes> method_times_;
    std::optional<bool> peers_readable_;
};

/// Runs `work` and, whether it throws or not, agrees with all processes of the group on the
/// outcome.
template <class Work>
void collectively(const ProcessGroup& group, Work&& work) {
    std::optional<Error> mine;
    try {
        work();
    } catch (const Error& e) {
        mine = e;
    } catch (const std::bad_alloc&) {
        mine = Error(ErrorCode::no_memory,
                     "process " + std::to_string(group.rank()) + " ran out of memory");
    }
    group.agree(mine);
}

}  // namespace datamover::mpi

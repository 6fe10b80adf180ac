// SPDX-License-Identifier: BSD-3-Clause
// Failures of a group's processes: notices on the boards of the node and by messages, and how a
// process leaves.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "datamover/error.hpp"
#include "node_boards.hpp"

namespace datamover::mpi {

/// What every use of a group throws once a process of it has failed.
Error error_of(const FailureNotice& notice);

/// Who has failed in a group, and who was notified. A process that fails writes on the boards of
/// its node; processes of other nodes get a message. The first notice stays: the group does not
/// recover. Before the boards are connected, which the first exchanges of a group set up, no
/// failure can be reported to other processes, nor by them.
class Failures {
public:
    explicit Failures(MPI_Comm comm);
    /// `shares` have a Board of each process of the node, this one's at `position`; the processes
    /// of other nodes are `far_ranks`. Local.
    void connect(NodeShares shares, int position, std::vector<int> far_ranks);
    bool is_connected() const { return boards_.own != nullptr; }
    const NodeBoards& boards() const { return boards_; }

    /// Objects that are released with a board. The communicator is that of a group of one node.
    struct Remains {
        MPI_Comm comm = MPI_COMM_NULL;
        std::vector<std::shared_ptr<const void>> kept{};
    };
    /// Ends this process's part in the group. Another one may still read here what was said last,
    /// and ring: the memory goes back once all of the node have left. Then, or in a later call, the
    /// communicator is freed if all have begun as many operations: where none was given up, all
    /// have ended. Local, from any thread.
    static void leave(std::unique_ptr<Failures> connected, Remains remains) noexcept;

    /// Counts an operation of MPI in which all processes of the group take part.
    void count_operation() { begun_.fetch_add(1, std::memory_order_relaxed); }

    /// An MPI call failed here: all processes are told, and from now on whatever they do with this
    /// group throws peer_failed. The notice is the one that is on one of the boards already, or
    /// else why this process fails. Local, never waits.
    void fail(const Error& why) noexcept;
    /// The failure of another process that `why` follows from, else `why`: a process that has had
    /// the notice may have left its movers before the notice came to this process's board. Local.
    Error cause_of(const Error& why) const;
    /// Throws peer_failed once a process of the group has failed. Local; one load.
    void check() const {
        if (is_written()) throw error_of(boards_.own->notice);
    }
    /// The same for loops that wait: also looks for notices from other nodes every now and then.
    void check_while_waiting();
    /// Whether there is a notice, also one that has just come from another node.
    bool shows_failure();
    /// Lets MPI go on with what the program has under way with it: a peer may wait in a send for a
    /// receive that was begun here, before it comes to what this process waits for. Does nothing on
    /// a thread that may not call MPI. About a microsecond.
    void let_mpi_progress() noexcept;

private:
    bool is_written() const {
        return is_connected() && boards_.own->state.load() == Board::written;
    }
    /// Looks for notices from other nodes; where there are none, MPI moves what else there is to
    /// move.
    void look_for_messages();
    /// On this process's board or on another one of the node; null where there is none.
    const FailureNotice* first_notice() const;

    MPI_Comm comm_;
    int rank_ = 0;
    NodeBoards boards_;
    std::vector<int> far_ranks_;
    FailureNotice sent_;  ///< the buffer of messages under way; of the thread that tells
    std::atomic<unsigned> looks_{0};
    std::atomic<std::uint64_t> begun_{0};
    std::atomic_flag looking_;  ///< a thread looks for messages
    // Under the lock of those that have left.
    Remains remains_;
    Failures* next_left_ = nullptr;
};

}  // namespace datamover::mpi

// SPDX-License-Identifier: BSD-3-Clause
// Failure boards: failure notices, turn order and agreements in shared memory of a node.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "datamover/error.hpp"
#include "memory/segment_pool.hpp"
#include "memory/shared_segment.hpp"

namespace datamover::mpi {

struct NodeShares;

/// Of a process that starts collective movers in another order than `whose`.
Error another_order(int rank, std::string_view whose);

/// What a process tells all others once, when an MPI call of its failed.
struct FailureNotice {
    static constexpr int tag = 0;  ///< of the message to other nodes
    std::int32_t rank = 0;
    std::int32_t code = 0;
    char text[248] = {};
};

/// A board in shared memory per process, on which every process of the node can write; processes of
/// other nodes get a message. The first notice stays: the group does not recover.
class FailureBoard {
public:
    /// The kind of an agreement: all processes must pass the same. Except for `all`, they must also
    /// pass the same count of numbers.
    enum class Question : std::uint32_t { error, largest, all };
    /// The numbers that a process posts in an agreement.
    struct AgreementSlot {
        static constexpr std::size_t most = 127;
        std::atomic<std::uint64_t> agreement;  ///< its number plus one, once all else is there
        Question question;
        std::uint64_t count;
        std::int64_t numbers[most];
    };
    /// What lies in shared memory.
    struct Board {
        std::atomic<int> state;
        FailureNotice notice;
        /// For what this process uses the last turns (see ProcessGroup::take_ticket): the low half
        /// of the turn's number plus one, and the number of a binding.
        static constexpr std::size_t turns = 32;
        std::atomic<std::uint64_t> binding_of_ticket[turns];
        /// This process's contributions to the last two agreements. Double buffered: no process
        /// starts the next agreement but one before every process has read this one.
        AgreementSlot agreement_slots[2];
        /// For this process, where it sleeps.
        memory::Bell bell;
        /// How many other processes of the node look at this board no more.
        std::atomic<std::uint32_t> left;
        /// How many operations each of these has begun, plus one; `differs` where not all as many.
        std::atomic<std::uint64_t> begun_by_left;
        static constexpr std::uint64_t differs = ~std::uint64_t{0};
    };

    /// `boards` are those of the processes of the node; this one is at `position` among them.
    /// Local.
    FailureBoard(MPI_Comm comm, const NodeShares& boards, int position, std::vector<int> far_ranks);

    /// Objects that are released with a board. The communicator is that of a group of one node.
    struct Remains {
        MPI_Comm comm = MPI_COMM_NULL;
        std::vector<std::shared_ptr<const void>> kept{};
    };
    /// Ends this process's part in the group. Another one may still read here what was said last,
    /// and ring: the memory goes back once all of the node have left. Then, or in a later call, the
    /// communicator is freed if all have begun as many operations: where none was given up, all
    /// have ended. Local, from any thread.
    static void leave(std::unique_ptr<FailureBoard> board, Remains remains) noexcept;

    /// Counts an operation of MPI in which all processes of the group take part.
    void count_operation() { begun_.fetch_add(1, std::memory_order_relaxed); }

    /// Writes on the boards of this node and sends to all other processes: the notice that is on
    /// one of the boards already, or else why this process fails. Never waits.
    void notify(const Error& why) noexcept;
    /// Throws peer_failed where a notice is on this process's board. One load.
    void check() const {
        if (is_written()) throw error_of(own_->notice);
    }
    /// The first failure, if `why` is a consequence of it: a process that has had the notice may
    /// have left its movers before the notice came to this process's board.
    Error cause_of(const Error& why) const;
    /// Like check, and looks for notices from other nodes every now and then. For loops that wait.
    void check_while_waiting();
    /// Whether a turn may begin: the others of the node have come to the one so many before it that
    /// it takes the place of on the board. Until then that one could not be compared any more.
    bool may_claim_ticket(std::uint64_t ticket) const;
    /// Writes for which binding this process uses a turn. Throws mismatch where another process of
    /// the node uses it for another one: the first to come finds none, all others do.
    void claim_ticket(std::uint64_t ticket, int binding) const;
    /// Writes this process's contribution to an agreement of the processes of the node: at most
    /// AgreementSlot::most numbers.
    void post(std::uint64_t agreement, Question question,
              std::span<const std::int64_t> numbers) const;
    /// Whether all of them have posted theirs.
    bool all_posted(std::uint64_t agreement) const;
    /// The positions in the node of those that have not.
    std::vector<int> not_posted(std::uint64_t agreement) const;
    /// Sleeps until they may have, at most `longest`.
    void sleep(std::uint64_t agreement, std::chrono::nanoseconds longest) const;
    /// The position of the first process whose call differs from that of position 0, if any.
    std::optional<std::size_t> first_mismatch(std::uint64_t agreement) const;
    /// Returns the numbers that each of them has posted, in order of rank.
    std::vector<std::vector<std::int64_t>> collect(std::uint64_t agreement) const;
    /// Whether there is a notice, also one that has just come from another node.
    bool shows_failure();
    /// Looks for notices from other nodes; where there are none, MPI moves what else there is to
    /// move.
    void look_for_messages();

private:
    static constexpr int empty = 0, writing = 1, written = 2;
    bool is_written() const { return own_->state.load() == written; }
    /// Throws mismatch where another process used the turn at a place, if it is still that turn's,
    /// for another binding than `mine`.
    void compare_ticket(std::size_t place, std::uint64_t mine) const;
    void receive_notice();
    /// False where the board has a notice.
    static bool write(Board& board, const FailureNotice& notice) noexcept;
    /// On this process's board or on another one of the node; null where there is none.
    const FailureNotice* first_notice() const;
    static Error error_of(const FailureNotice& notice);

    MPI_Comm comm_;
    int rank_ = 0;
    memory::AllocationPtr memory_;
    std::vector<std::shared_ptr<memory::SharedSegment>> mapped_;
    std::vector<Board*> boards_;  ///< of the node, in order of rank
    Board* own_;
    std::vector<Board*> peers_;  ///< the others
    std::vector<int> far_ranks_;
    FailureNotice sent_;  ///< the buffer of messages under way; of the thread that tells
    std::atomic<unsigned> looks_{0};
    std::atomic<std::uint64_t> begun_{0};
    std::atomic_flag looking_;  ///< a thread looks for messages
    // Under the lock of those that have left.
    Remains remains_;
    FailureBoard* next_left_ = nullptr;
};

}  // namespace datamover::mpi

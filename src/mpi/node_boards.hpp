// SPDX-License-Identifier: BSD-3-Clause
// Boards in shared memory of a node, and the agreements of its processes on them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/segment_pool.hpp"
#include "memory/shared_segment.hpp"

namespace datamover::mpi {

/// Memory of each process of a node, which all of them have mapped.
struct NodeShares {
    std::string why_not;  ///< it does not work between them; empty: it does
    memory::AllocationPtr own;
    std::vector<std::byte*> data;  ///< of each process, in order of rank
    std::vector<std::shared_ptr<memory::SharedSegment>> mapped;
};

/// What a process tells all others once, when an MPI call of its failed.
struct FailureNotice {
    static constexpr int tag = 0;  ///< of the message to other nodes
    std::int32_t rank = 0;
    std::int32_t code = 0;
    char text[248] = {};
};

/// The kind of an agreement: all processes must pass the same. Except for `all`, they must also
/// pass the same count of numbers.
enum class Question : std::uint32_t { error, largest, all };

/// What a process has in shared memory, on which every process of the node can write.
struct Board {
    /// Of the notice: the first one stays.
    static constexpr int empty = 0, writing = 1, written = 2;
    std::atomic<int> state;
    FailureNotice notice;
    /// What this process brings to an agreement.
    struct Slot {
        static constexpr std::size_t most = 127;
        std::atomic<std::uint64_t> agreement;  ///< its number plus one, once all else is there
        Question question;
        std::uint64_t count;
        std::int64_t numbers[most];
    };
    /// Of the last two agreements. Double buffered: no process starts the next agreement but one
    /// before every process has read this one.
    Slot slots[2];
    /// For this process, where it sleeps.
    memory::Bell bell;
    /// How many other processes of the node look at this board no more.
    std::atomic<std::uint32_t> left;
    /// How many operations each of these has begun, plus one; `differs` where not all as many.
    std::atomic<std::uint64_t> begun_by_left;
    static constexpr std::uint64_t differs = ~std::uint64_t{0};
};

/// The boards of the processes of a node, as one of them has them mapped.
struct NodeBoards {
    NodeShares memory;
    std::vector<Board*> all;  ///< in order of rank
    Board* own = nullptr;
    std::vector<Board*> peers;                          ///< the others
    mutable std::atomic<std::uint64_t> agreements = 0;  ///< that this process has begun
};

/// The next agreement of the processes of a node. Local.
class NodeAgreement {
public:
    explicit NodeAgreement(const NodeBoards& boards)
        : boards_(boards), number_(boards.agreements.fetch_add(1, std::memory_order_relaxed)) {}

    /// Writes this process's contribution: at most Board::Slot::most numbers.
    void post(Question question, std::span<const std::int64_t> numbers) const;
    /// Whether all processes have posted theirs.
    bool all_posted() const;
    /// The positions in the node of those that have not.
    std::vector<std::size_t> not_posted() const;
    /// Sleeps until they may have, or one has failed, at most `longest`.
    void sleep(std::chrono::nanoseconds longest) const;
    /// The position of the first process whose call differs from that of position 0, if any.
    std::optional<std::size_t> first_mismatch() const;
    /// The numbers that each of them has posted, in order of rank.
    std::vector<std::vector<std::int64_t>> collect() const;

private:
    Board::Slot& slot(Board* board) const { return board->slots[number_ % 2]; }
    bool has_posted(Board* board) const { return slot(board).agreement.load() == number_ + 1; }

    const NodeBoards& boards_;
    std::uint64_t number_;
};

}  // namespace datamover::mpi

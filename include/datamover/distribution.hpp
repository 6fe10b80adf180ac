// SPDX-License-Identifier: BSD-3-Clause
// How does every single element get to the process that is named for it, and how does it come back?
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datamover/element_update.hpp"
#include "datamover/error.hpp"

namespace datamover {

/// Where the target ranks of this process's elements are to be read. A rank of -1 drops; an element
/// may have several targets (a fixed number, or by rows as in CSR) and is then duplicated.
struct TargetList {
    /// Evaluates `count` targets from entry `first` on; called for ascending ranges, once per
    /// entry.
    using Evaluate =
        std::function<void(std::int64_t first, std::int64_t count, std::int64_t* targets)>;

    std::int64_t elems = 0;
    std::int64_t targets_per_elem = 1;  ///< of an (n, k) table; entries lie row by row
    std::span<const std::int64_t>
        row_starts{};  ///< CSR: n + 1 ascending numbers of entries, from 0

    /// Integers in memory: one per entry, `stride_bytes` apart (a field of a structure, an array).
    const void* data = nullptr;
    ScalarType type = ScalarType::int32;
    std::int64_t stride_bytes = 4;
    /// Used instead of `data` where it is set.
    Evaluate evaluate{};

    /// Targets altogether. Local, O(1).
    std::int64_t entries() const {
        return row_starts.empty() ? elems * targets_per_elem : row_starts.back();
    }
};

/// One array of which every element has as many bytes, `stride_bytes` apart.
struct ElementColumn {
    const void* data = nullptr;
    std::int64_t elem_bytes = 0;
    std::int64_t stride_bytes = 0;
};

/// Memory for elements that arrive, dense. Pooled where the library made it: other processes of the
/// node then write straight into it. Goes back to the pool with the last copy of `owner`.
struct ElementBuffer {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    std::shared_ptr<const void> owner{};
};

/// How a distribution is carried out; all optional.
struct DistributionOptions {
    /// Extra memory that a move, in place or not, or a reverse may use on this process, for
    /// elements that need a buffer on their way; it works in rounds then, with at least one element
    /// per process each. 0: no limit. Where processes differ the smallest counts for reverse and in
    /// place.
    std::int64_t max_bytes = 0;
};

/// By which implementation elements are carried, and in which order they arrive.
struct CarryOptions {
    /// "partition" is ours; "alltoallv", "alltoallw", "sendrecv" and "sort" are the paper's. "auto"
    /// takes the first, or what was faster by a tenth when this communicator was first used with
    /// "auto".
    std::string method = "auto";
    /// Elements arrive ordered by source process and by their position there; else in any order.
    bool stable = true;
};

/// How long an implementation took for a sample, on the slowest process.
struct MethodTime {
    std::string method;
    bool in_place = false;
    std::int64_t elem_bytes = 0;
    double seconds = 0;
};

/// What a distribution does on this process, in figures.
struct DistributionCounters {
    std::int64_t moves = 0;         ///< completed moves and reverses
    std::int64_t plan_bytes = 0;    ///< kept between moves
    std::int64_t staged_bytes = 0;  ///< extra memory of the last move or reverse
    std::int64_t messages = 0;      ///< MPI messages sent by the last one
    std::int64_t elems_kept = 0;    ///< that stay on this process
    std::int64_t elems_sent = 0;    ///< to other processes
    std::int64_t elems_dropped = 0;
    std::int64_t rounds = 0;  ///< of the last move
    std::string method;       ///< that carried it
};

/// A plan that takes every element to the process of its rank. Elements arrive ordered by source
/// process, and those of one source in their order there (the paper's stable order). On a node the
/// sender writes each element once, straight into the receiver's memory where that is pooled;
/// elements that stay are copied once. No index travels with the data. All calls that say so are
/// collective over the communicator, in the same order on all processes.
/// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes.
class Distribution {
public:
    Distribution() = default;
    /// Reads every target once and exchanges counts; the targets are not needed afterwards.
    /// Collective. O(entries) + O(processes) memory. Throws, on all processes: out_of_range for a
    /// target outside the communicator (naming the process and its first such element),
    /// invalid_argument, wrong_type, no_memory, mpi.
    Distribution(MPI_Comm comm, const TargetList& targets, const DistributionOptions& options = {});

    std::int64_t elems() const;     ///< given by this process
    std::int64_t received() const;  ///< that arrive at this process
    /// Elements to, and from, each rank.
    std::span<const std::int64_t> send_counts() const;
    std::span<const std::int64_t> receive_counts() const;

    /// Moves one element per target of each column into `results`, which have received() elements
    /// each. "partition" takes at most one message per pair of processes (and round) for all
    /// columns, other methods move one column after the other. Collective.
    /// Throws, before anything moves, on all processes: mismatch where a buffer is too small (the
    /// message tells how much is needed) or elements have another size on another process;
    /// invalid_argument (unknown method); unsupported ("sort" with max_bytes, too many elements for
    /// the MPI's counts).
    void move(std::span<const ElementColumn> columns, std::span<const ElementBuffer> results,
              const CarryOptions& how = {});
    /// The same into pooled memory.
    std::vector<ElementBuffer> move(std::span<const ElementColumn> columns,
                                    const CarryOptions& how = {});

    /// Replaces the elements of one dense buffer by those that arrive. Only for one target per
    /// element. Not stable, "partition" keeps the order among those that stay, while arrivals take
    /// the places of elements that left, then follow at the end: its cost, and its extra memory,
    /// are the elements that leave and arrive. "sort" and "alltoallv" have an extra memory of 1024
    /// elements (or 4 per process where that is more); max_bytes replaces the 1024, and makes
    /// "partition" hand over to the stable "alltoallv" where it does not suffice. "auto" keeps the
    /// order among those that stay.
    /// Collective. Throws as `move` does, nothing has moved then.
    void move_in_place(void* data, std::int64_t elem_bytes, std::int64_t capacity_elems,
                       const CarryOptions& how = {"auto", false});

    /// Takes values, one per received element in the (stable) order of arrival, to where the
    /// elements came from. Where an element had several targets its values are combined by `op` in
    /// their order (replace: the last one stays); elements without target get zero. Collective.
    /// Throws wrong_type when `op` combines and `type` does not divide the element; mismatch.
    void reverse(const ElementColumn& values, const ElementBuffer& result, Op op = Op::replace,
                 ScalarType type = ScalarType::opaque);

    /// Pooled memory that `move` and `reverse` reach without a second copy. Local.
    ElementBuffer allocate(std::int64_t bytes) const;

    /// Takes part in the move, move in place or reverse that the other processes call, as one that
    /// cannot: all throw `error` (or that of a lower process), nothing moves. Collective.
    void refuse(const Error& error);

    /// What "auto" chooses from: measured once per communicator, at the first use of "auto" or
    /// here, with samples of two element sizes. Collective. The same on all processes.
    std::vector<MethodTime> measured_methods() const;
    /// What "auto" takes for elements of this size. Collective as `measured_methods`.
    std::string chosen_method(std::int64_t elem_bytes, bool in_place = false) const;

    DistributionCounters counters() const;

    struct State;

private:
    std::shared_ptr<State> state_;
};

}  // namespace datamover

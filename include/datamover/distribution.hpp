// SPDX-License-Identifier: BSD-3-Clause
// Distributions of single elements: each element goes to its target process, and results come
// back.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datamover/element_columns.hpp"
#include "datamover/element_update.hpp"
#include "datamover/error.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// By which implementation elements are carried, and in which order they arrive.
struct CarryOptions {
    /// "partition" is ours; "alltoallv", "alltoallw", "sendrecv" and "sort" are the paper's. "auto"
    /// takes "partition"; if not all processes share the memory of one node, "alltoallv" or
    /// "sendrecv" if it was faster by a tenth when this communicator was first used with "auto".
    std::string method = "auto";
    /// Elements arrive ordered by source process and by their position there. False lets
    /// "sendrecv" and "sort", and all in place, deliver in an order of their own, the same for all
    /// columns.
    bool stable = true;
};

/// How a distribution is carried out; all optional.
struct DistributionOptions {
    /// Extra memory that a move, in place or not, or a reverse may use on this process, for
    /// elements that need a buffer on their way; it works in rounds then, with at least one element
    /// per process each. 0: no limit. Where processes differ the smallest counts for reverse and in
    /// place.
    std::int64_t max_bytes = 0;
    /// What moves do unless they are told something else; the same on all processes. In place
    /// `stable` counts only where it is told there.
    CarryOptions carry{};
};

/// By which call values that go back had arrived, where a distribution has delivered in two orders.
enum class ArrivedBy : std::uint8_t {
    any,            ///< all moves so far had one order
    move,           ///< the last move
    move_in_place,  ///< the last move in place
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
/// collective over the communicator, in the same order on all processes. A distribution is used by
/// one thread at a time, those of a communicator by several if their collective calls and starts
/// are made one after the other. Once a process has failed
/// (mpi; timeout where a deadline is set, see progress.hpp; an interrupt) all others throw
/// peer_failed where they wait, or at their next call.
/// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes.
class Distribution {
public:
    Distribution() = default;
    /// Reads every target once and exchanges counts; the targets are not needed afterwards.
    /// Collective. O(entries) + O(processes) memory. Throws, on all processes: out_of_range for a
    /// target outside the communicator (naming the process and its first such element),
    /// invalid_argument (unknown method), wrong_type, no_memory, mpi; mismatch where processes give
    /// another `options.carry`. What `targets.evaluate` throws is thrown here, and told to all.
    Distribution(MPI_Comm comm, const TargetList& targets, const DistributionOptions& options = {});

    std::int64_t elems() const;     ///< given by this process
    std::int64_t received() const;  ///< that arrive at this process
    /// Elements to, and from, each rank.
    std::span<const std::int64_t> send_counts() const;
    std::span<const std::int64_t> receive_counts() const;

    /// Moves one element per target of each column into `results`, which have received() elements
    /// each. "partition" and "sendrecv" take all columns in the same messages ("partition" one per
    /// pair of processes and round), other methods move one column after the other; either way all
    /// columns arrive in the same order. Collective.
    /// Throws, before anything moves, on all processes: mismatch where a buffer is too small (the
    /// message tells how much is needed), elements have another size or type on another process, or
    /// processes call different moves; invalid_argument (unknown method, no memory given, a result
    /// that overlaps a column or another result); wrong_type; out_of_range (sizes beyond 64 bits);
    /// unsupported ("sort" with max_bytes, too many elements for the MPI's counts); invalid_state
    /// where a started move of this distribution is in flight on any process.
    void move(std::span<const ElementColumn> columns, std::span<const ElementBuffer> results,
              const std::optional<CarryOptions>& how = {});
    /// The same into pooled memory.
    std::vector<ElementBuffer> move(std::span<const ElementColumn> columns,
                                    const std::optional<CarryOptions>& how = {});

    /// Begins a move in stable order, by "partition", without waiting for another process; with a
    /// progress thread (progress.hpp) it goes on by itself, else in every test and wait of this
    /// process. Columns and results stay until the end and are not touched; one move per
    /// distribution is in flight. All processes start moves in the same order and wait for them in
    /// any: where the eighth call before this one began a move that is not complete, that is
    /// completed first. What does not fit on any process (as for `move`; unsupported where the
    /// distribution was made for another method) test and wait throw on all, and nothing has moved.
    /// Throws invalid_state with a move in flight, or eight on the communicator; peer_failed.
    void start(std::span<const ElementColumn> columns, std::span<const ElementBuffer> results);
    /// The same into pooled memory, which is filled at the end; empty where it cannot be had.
    std::vector<ElementBuffer> start(std::span<const ElementColumn> columns);
    /// Does what can be done now; true when complete here. Throws invalid_state without start.
    bool test();
    /// Returns when everything has arrived here and columns may be changed. Throws invalid_state
    /// without start, timeout (default: default_timeout() of progress.hpp): still in flight then.
    void wait(std::optional<double> timeout_seconds = {});
    bool in_flight() const;
    /// Takes part in the start that the other processes call, as one that cannot: test and wait
    /// throw `error` (or that of a lower process) on all. Never waits.
    void start_refused(const Error& error);

    /// Replaces the elements of one dense buffer by those that arrive. Only for one target per
    /// element. Unless `how` asks for the stable order, "partition" keeps the order among those
    /// that stay, while arrivals take the places of elements that left, then follow at the end: its
    /// cost, and its extra memory, are the elements that leave and arrive. "sort" and "alltoallv"
    /// have an extra memory of 1024 elements (or 4 per process where that is more); max_bytes
    /// replaces the 1024, and makes "partition" hand over to the stable "alltoallv" where it does
    /// not suffice. "auto" keeps the order among those that stay, and takes the same method for
    /// elements of any size. Collective. Throws as `move` does, nothing has moved then.
    void move_in_place(void* data, std::int64_t elem_bytes, std::int64_t capacity_elems,
                       const std::optional<CarryOptions>& how = {});
    /// The same with the type's name in `buffer`, which has to be dense.
    void move_in_place(const ElementColumn& buffer, std::int64_t capacity_elems,
                       const std::optional<CarryOptions>& how = {});

    /// Takes values, one per received element of each column in the order of arrival, to where the
    /// elements came from. Where an element had several targets its values are combined by `op` in
    /// their order (replace: the last one stays); elements without target get zero. After moves
    /// that delivered in an order of their own that order is found out first, once for each: it
    /// takes 40 bytes per element for a while, 8 are kept. Collective.
    /// Throws, before anything moves, on all processes: wrong_type when `op` combines and the type
    /// does not divide the element; mismatch, invalid_argument, out_of_range as `move` does;
    /// invalid_state where moves had different orders and `by` does not say which counts.
    void reverse(std::span<const ElementColumn> values, std::span<const ElementBuffer> results,
                 Op op = Op::replace, ArrivedBy by = ArrivedBy::any);
    void reverse(const ElementColumn& values, const ElementBuffer& result, Op op = Op::replace,
                 ArrivedBy by = ArrivedBy::any);

    /// Pooled memory that `move` and `reverse` reach without a second copy. Local.
    ElementBuffer allocate(std::int64_t bytes) const;

    /// Takes part in the move, move in place or reverse that the other processes call, as one that
    /// cannot: all throw `error` (or that of a lower process), nothing moves. Collective.
    void refuse(const Error& error);

    /// The times that "auto" chooses from, measured once per communicator; none for other methods,
    /// and if all processes share the memory of one node. The same on all processes. Collective.
    std::vector<MethodTime> measured_methods() const;
    /// The method for one column of elements of this size, which must be at least 1. Collective.
    std::string chosen_method(std::int64_t elem_bytes, bool in_place = false) const;

    DistributionCounters counters() const;

    struct State;

private:
    std::shared_ptr<State> state_;
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Migrations of single elements: each element is moved to its target process, and results are
// returned.
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

/// The implementation that moves elements, and the order in which they arrive.
struct CarryOptions {
    /// "partition" is datamover's own method; "alltoallv", "alltoallw", "sendrecv" and "sort" are
    /// those of the paper. "auto" uses "partition", unless not all processes share the memory of
    /// one node and "alltoallv" or "sendrecv" was at least a tenth faster when this communicator
    /// was first used with "auto".
    std::string method = "auto";
    /// Whether elements arrive ordered by source process and by their position there. If false,
    /// "sort" and all in-place methods may deliver in an order of their own, the same for all
    /// columns.
    bool stable = true;
};

/// Options of a migration, all with defaults.
struct MigrationOptions {
    /// Limit of the extra memory that a move, a move in place or a reverse may use on this process
    /// for elements that need a buffer, in bytes; 0: no limit. The operation then works in rounds,
    /// with at least one element per process in each. If processes pass different limits, reverse
    /// and move_in_place use the smallest.
    std::int64_t max_bytes = 0;
    /// Default of `how` in moves; the same on all processes. In move_in_place, `stable` takes
    /// effect only if it is passed there.
    CarryOptions carry{};
};

/// The call whose arrival order the values of a reverse have, if a migration has delivered in
/// two orders.
enum class ArrivedBy : std::uint8_t {
    any,            ///< all moves so far had the same order
    move,           ///< the last move
    move_in_place,  ///< the last move in place
};

/// The time that an implementation took for a sample, on the slowest process.
struct MethodTime {
    std::string method;
    bool in_place = false;
    std::int64_t elem_bytes = 0;
    double seconds = 0;
};

/// Counters of a migration on this process.
struct MigrationCounters {
    std::int64_t moves = 0;         ///< completed moves and reverses
    std::int64_t plan_bytes = 0;    ///< memory kept between moves
    std::int64_t staged_bytes = 0;  ///< extra memory of the last move or reverse
    std::int64_t messages = 0;      ///< MPI messages sent by the last one
    std::int64_t elems_kept = 0;    ///< elements that stay on this process
    std::int64_t elems_sent = 0;    ///< elements sent to other processes
    std::int64_t elems_dropped = 0;
    std::int64_t rounds = 0;  ///< in the last move
    std::string method;       ///< method of the last move
};

/// A plan that moves every element to its target process. Elements arrive ordered by source
/// process, and those of one source in their order there (the paper's stable order). On a node, the
/// sender writes each element once, directly into the receiver's memory if that is pooled; elements
/// that stay are copied once. No index is sent with the data.
///
/// Functions marked collective are collective over the communicator, in the same order on all
/// processes. Only one thread at a time may use a migration. Several threads may use the
/// migrations of one communicator if they make their collective calls and starts one after the
/// other. Once a process has failed (mpi; timeout if a deadline is set, see progress.hpp; an
/// interrupt) all others throw peer_failed from their wait or from their next call. Source:
/// M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes.
class Migration {
public:
    Migration() = default;
    /// Plan a migration: read every target once and exchange counts. The targets are not needed
    /// afterwards. Throws, on all processes: out_of_range for a target outside the communicator
    /// (naming the process and its first such element), invalid_argument (unknown method),
    /// wrong_type, no_memory, mpi; mismatch if processes pass different `options.carry`. An
    /// exception from `targets.evaluate` is thrown here, and reported on all processes. Collective.
    /// O(entries) + O(processes) memory.
    Migration(MPI_Comm comm, const TargetList& targets, const MigrationOptions& options = {});

    std::int64_t elems() const;     ///< number on this process
    std::int64_t received() const;  ///< number that arrive at this process
    /// Return the number of elements sent to, or received from, each rank.
    std::span<const std::int64_t> send_counts() const;
    std::span<const std::int64_t> receive_counts() const;

    /// Move one element per target of each column into `results`, which have received() elements
    /// each. "partition" and "sendrecv" send all columns in the same messages ("partition" one per
    /// pair of processes and round); other methods move one column after the other. In both cases
    /// all columns arrive in the same order. Throws, before anything is moved, on all processes:
    /// - mismatch if a buffer is too small (the message gives the required size), if elements have
    ///   another size or type on another process, or if processes call different moves;
    /// - invalid_argument (unknown method, no memory given, a result that overlaps a column or
    ///   another result);
    /// - wrong_type;
    /// - out_of_range (sizes beyond 64 bits);
    /// - unsupported ("sort" with max_bytes, too many elements for MPI's counts);
    /// - invalid_state if a started move of this migration is in flight on any process.
    ///
    /// Collective.
    void move(std::span<const ElementColumn> columns, std::span<const ElementBuffer> results,
              const std::optional<CarryOptions>& how = {});
    /// Move into pooled memory, and return it.
    std::vector<ElementBuffer> move(std::span<const ElementColumn> columns,
                                    const std::optional<CarryOptions>& how = {});

    /// Begin a move in stable order with "partition", without waiting for another process. With a
    /// progress thread (progress.hpp) it advances by itself, otherwise in every test and wait of
    /// this process. Columns and results must exist and must not be accessed until the move is
    /// complete. At most one move per migration is in flight. All processes must start moves in
    /// the same order, and may wait for them in any order. If the eighth start before this one
    /// began a move that is not complete, this call completes that one first.
    ///
    /// If the arguments are invalid on any process, test and wait throw on all, and nothing is
    /// moved; the errors are those of `move`, and unsupported if the migration was made for
    /// another method. Throws invalid_state if a move is in flight, or eight on the communicator;
    /// peer_failed.
    void start(std::span<const ElementColumn> columns, std::span<const ElementBuffer> results);
    /// Start a move into pooled memory, which is filled when the move is complete; empty if the
    /// memory cannot be allocated.
    std::vector<ElementBuffer> start(std::span<const ElementColumn> columns);
    /// Do the work that can be done now, and return whether the move is complete here. Throws
    /// invalid_state if not started.
    bool test();
    /// Wait until everything has arrived here and columns may be changed. Throws invalid_state if
    /// not started, timeout after `timeout_seconds` (default: default_timeout() of progress.hpp);
    /// the move is then still in flight.
    void wait(std::optional<double> timeout_seconds = {});
    bool in_flight() const;
    /// Take the place of a start on a process that cannot call it. On all processes, test and wait
    /// throw `error`, or that of a lower rank. Never waits.
    void start_refused(const Error& error);

    /// Replace the elements of one dense buffer with those that arrive. Requires one target per
    /// element. Throws as `move`, and then nothing is moved. Collective.
    ///
    /// Order and extra memory depend on the method:
    /// - "partition", unless `how` requests the stable order, keeps the order of elements that
    ///   stay; arrivals fill the places of elements that left, then follow at the end. Its cost and
    ///   its extra memory are the elements that leave and arrive.
    /// - "sort" and "alltoallv" use extra memory of 1024 elements, or 4 per process if that is
    ///   more; max_bytes replaces the 1024.
    /// - If max_bytes is too small for "partition", it uses the stable "alltoallv" instead.
    /// - "auto" keeps the order of elements that stay, and uses the same method for elements of any
    ///   size.
    void move_in_place(void* data, std::int64_t elem_bytes, std::int64_t capacity_elems,
                       const std::optional<CarryOptions>& how = {});
    /// Replace elements as above, with the type name in `buffer`, which must be dense.
    void move_in_place(const ElementColumn& buffer, std::int64_t capacity_elems,
                       const std::optional<CarryOptions>& how = {});

    /// Return values to the processes that the elements came from, one value per received element
    /// of each column, in the order of arrival. If an element had several targets, its values are
    /// combined by `op` in their order (replace: the last one remains); elements without a target
    /// get zero. After moves that delivered in an order of their own, that order is determined
    /// first, once for each: this takes 40 bytes per element temporarily, of which 8 are kept.
    /// Throws, before anything is moved, on all processes: wrong_type if `op` combines and the type
    /// size does not divide the element size; mismatch, invalid_argument, out_of_range as `move`;
    /// invalid_state if moves had different orders and `by` does not specify one. Collective.
    void reverse(std::span<const ElementColumn> values, std::span<const ElementBuffer> results,
                 Op op = Op::replace, ArrivedBy by = ArrivedBy::any);
    void reverse(const ElementColumn& values, const ElementBuffer& result, Op op = Op::replace,
                 ArrivedBy by = ArrivedBy::any);

    /// Allocate pooled memory, which `move` and `reverse` access without a second copy. Local.
    ElementBuffer allocate(std::int64_t bytes) const;

    /// Take the place of a move, move_in_place or reverse on a process that cannot call it. All
    /// processes throw `error`, or that of a lower rank, and nothing is moved. Collective.
    void refuse(const Error& error);

    /// Return the times on which "auto" bases its choice, measured once per communicator. Empty for
    /// other methods, and if all processes share the memory of one node. The same on all processes.
    /// Collective.
    std::vector<MethodTime> measured_methods() const;
    /// Return the method for one column of elements of this size, which must be at least 1.
    /// Collective.
    std::string chosen_method(std::int64_t elem_bytes, bool in_place = false) const;

    MigrationCounters counters() const;

    struct State;

private:
    std::shared_ptr<State> state_;
};

}  // namespace datamover

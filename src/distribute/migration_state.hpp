// SPDX-License-Identifier: BSD-3-Clause
// The state of a migration between set-up and moves, its orders of arrival and its methods.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datamover/migration.hpp"
#include "mover/round.hpp"
#include "mpi/process_group.hpp"
#include "node_channel.hpp"
#include "partition.hpp"

namespace datamover::distribute {

using State = Migration::State;
class NodeSlot;

/// How elements were delivered, as far as their order follows from it.
struct Delivery {
    std::string method{};  ///< empty: in stable order
    bool in_place = false;
    std::int64_t capacity_elems = 0;  ///< of the buffer
    std::int64_t scratch_elems = 0;   ///< beside the buffer
    /// Of the move, where the order depends on what other processes may have changed.
    std::int64_t number = 0;
    bool operator==(const Delivery&) const = default;
};

/// The orders of the moves so far, as a rule the stable one. Otherwise an order follows from how it
/// was delivered, and is found out only when values go back: labels are delivered in the same way.
class ArrivalOrders {
public:
    void record(ArrivedBy by, const Delivery& delivery);
    /// The delivery whose order counts. Throws invalid_state where there were two and `by` does not
    /// say which.
    Delivery chosen(ArrivedBy by) const;
    /// Where the element that is number i in stable order has arrived; empty: at place i.
    /// Collective.
    const std::vector<std::int64_t>& places(State& state, NodeSlot& slot, const Delivery& delivery);
    std::int64_t kept_bytes() const {
        return static_cast<std::int64_t>(places_.size() * sizeof(std::int64_t));
    }

private:
    std::optional<Delivery> move_, in_place_;  ///< the last of each
    bool differ_ = false;
    Delivery known_;  ///< whose places are kept
    std::vector<std::int64_t> places_;
};

class StartedMove;

/// Of the last move, for MigrationCounters. Counted by the thread that pushes it on, and read by
/// the program meanwhile.
struct MoveCounters {
    std::atomic<std::int64_t> staged_bytes{0}, messages{0}, rounds{0};
};

}  // namespace datamover::distribute

namespace datamover {

struct [[gnu::visibility("hidden")]] Migration::State {
    /// Collective; throws what `Migration` does.
    State(mpi::ProcessGroupPtr group, std::shared_ptr<distribute::NodeChannel> channel,
          distribute::NodeSlot& slot, const TargetList& targets, const MigrationOptions& options);

    mpi::ProcessGroupPtr group;
    std::shared_ptr<distribute::NodeChannel> channel;
    std::int64_t number;  ///< among the migrations of the communicator
    MigrationOptions options;
    std::int64_t elems = 0;
    std::int64_t per_elem = 1;
    std::vector<std::int64_t> row_starts;
    distribute::TargetCodes codes;
    std::vector<std::int64_t> send_counts, recv_counts;  ///< per rank
    std::vector<std::int64_t> recv_starts;               ///< per rank, and the sum at the end
    std::int64_t dropped = 0;
    std::int64_t limit_bytes = 0;  ///< the smallest max_bytes of all processes; 0: none
    MigrationCounters counters;    ///< but those of the last move
    distribute::MoveCounters last_move;
    distribute::ArrivalOrders orders;
    /// Between start and wait. Last: it goes first, and uses all else until then.
    std::shared_ptr<distribute::StartedMove> started;

    int rank() const { return group->rank(); }
    int nprocs() const { return group->size(); }
    std::int64_t received() const { return recv_starts.back(); }

    /// All of this process's elements.
    distribute::ElementRange all_elems() const {
        distribute::ElementRange all;
        all.codes = &codes;
        all.rows = {per_elem, row_starts};
        all.end_elem = elems;
        all.drop_code = static_cast<std::uint32_t>(nprocs());
        all.drops = dropped > 0;
        return all;
    }
};

}  // namespace datamover

namespace datamover::distribute {

/// Where the columns of a move come from and go to.
struct ColumnTransfer {
    std::span<const ElementColumn> columns;
    std::span<const ElementBuffer> results;

    std::int64_t elem_bytes() const {
        std::int64_t sum = 0;
        for (const ElementColumn& c : columns) sum += c.elem_bytes;
        return sum;
    }
    /// At most `most` columns from `first` on; advances `first` past them.
    ColumnTransfer next(std::size_t& first, std::size_t most) const {
        const std::size_t begin = first, n = std::min(most, columns.size() - first);
        first += n;
        return {columns.subspan(begin, n), results.subspan(begin, n)};
    }
};

/// Elements that are replaced where they lie.
struct Buffer {
    std::byte* data = nullptr;
    std::int64_t elem_bytes = 0;
    std::int64_t capacity_elems = 0;  ///< at least what is there before and after
    std::int64_t scratch_elems = 0;   ///< extra memory, the same number on all processes
};

/// What goes back: columns of values, into as many results.
struct ReverseTransfer {
    ColumnTransfer transfer;
    Op op = Op::replace;
    /// Where the value that is number i in stable order lies; empty: at place i.
    std::span<const std::int64_t> places{};

    std::int64_t place(std::int64_t i) const {
        return places.empty() ? i : places[static_cast<std::size_t>(i)];
    }
};

/// A move that is pushed on by a round, with the mailboxes of a slot.
class SlotOperation : public Operation {
public:
    SlotOperation(State& state, NodeSlot& slot)
        : s_(state), channel_(*state.channel), slot_(slot) {}
    void announce() override {}
    Progress progress() final {
        advanced_ = false;
        if (advance()) return Progress::complete;
        return advanced_ ? Progress::some : Progress::none;
    }
    bool sends_messages() const override { return s_.nprocs() > 1; }
    bool needs_polls() const override { return channel_.messages_needed(); }
    void keep_memory() noexcept override;

protected:
    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
    /// Does what can be done now; true when complete.
    virtual bool advance() = 0;
    /// Something has come, or been done.
    void note_progress() { advanced_ = true; }
    /// Peers may touch it; it is kept where the operation fails.
    void use(memory::AllocationPtr memory) { used_.push_back(std::move(memory)); }
    /// The shared memory that bytes lie in, known to the node by its place.
    std::optional<memory::SharedPlace> share(const std::byte* data, std::int64_t bytes);

    State& s_;
    NodeChannel& channel_;
    NodeSlot& slot_;

private:
    bool advanced_ = false;
    std::vector<memory::AllocationPtr> used_;
};

using OperationPtr = std::unique_ptr<Operation>;
/// Moves the elements of at most offered_columns columns.
OperationPtr make_transfer(State& state, NodeSlot& slot, const ColumnTransfer& transfer);
/// The method "partition": moves at most offered_columns columns in stable order. Collective.
void carry_by_partition(State& state, NodeSlot& slot, const ColumnTransfer& transfer, bool stable);
/// Likewise in place: replaces the elements of a buffer by those that arrive, in stable order or
/// keeping that of those that stay.
void exchange_by_partition(State& state, NodeSlot& slot, const Buffer& buffer, bool stable);
/// The extra memory that it takes on this process.
std::int64_t in_place_bytes(const State& state, std::int64_t elem_bytes);
/// Takes values of received elements to where the elements came from. Keeps to the limit of extra
/// memory, but for one value per process and element. Collective.
void carry_back(State& state, NodeSlot& slot, const ReverseTransfer& way);

/// Carries an operation out; whatever goes wrong is told to all processes. Collective.
void run(State& state, Operation& operation);
/// Whatever goes wrong in `work` is told to all processes. Throws peer_failed where another one has
/// failed before.
void propagating_errors(const State& state, const std::function<void()>& work);

// Choice of the implementation that carries a migration with method "auto".

/// What was measured for a group; the same on all its processes.
struct MethodTimes {
    std::vector<MethodTime> times;

    /// The fastest for elements of about this size: "partition" unless another one is faster by a
    /// tenth, or if nothing was measured. In place it is the fastest for the sum of all sizes, so
    /// that arrays of different elements which move one after the other arrive in the same order.
    const std::string& fastest(std::int64_t elem_bytes, bool in_place) const;
};

/// Times samples with every implementation at the first call for a group: elements of two sizes
/// with targets in turn, and in place with one in eight that leaves. Measures nothing if all
/// processes share the memory of one node: there "partition" copies each element once, straight to
/// its place, and a measurement could only be misled by noise. Collective at the first call, then
/// local.
const MethodTimes& method_times(const State& state, NodeSlot& slot);

}  // namespace datamover::distribute

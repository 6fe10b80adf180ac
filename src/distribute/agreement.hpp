// SPDX-License-Identifier: BSD-3-Clause
// Agreement of all processes on a call of a migration, and moves between start and wait.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "migration_state.hpp"

namespace datamover::distribute {

/// What kept a process from taking part.
struct LocalError {
    std::optional<Error> told;  ///< what all hear; empty: nothing did
    std::exception_ptr own{};   ///< what this process throws, where it is no Error

    void raise_own() const {
        if (own) std::rethrow_exception(own);
    }
};

/// Runs `work`; any exception becomes trouble.
template <class Work>
LocalError local_error_of(const mpi::ProcessGroup& group, Work&& work) {
    try {
        work();
        return {};
    } catch (const Error& e) {
        return {e, {}};
    } catch (...) {
        return {mpi::current_error(group), std::current_exception()};
    }
}

/// What a process calls; in words only where they differ.
struct Call {
    const char* what;
    CarryOptions how;
    std::int64_t migration = 0;  ///< its number on the communicator, where there is one already
    std::span<const ElementColumn> columns{};
    Op op = Op::replace;
    ArrivedBy by = ArrivedBy::any;

    /// Not negative.
    std::int64_t signature() const;
    std::string describe() const;
};

/// The agreement of all processes on a call: whether one of them cannot take part, or calls another
/// thing, and whether one has to keep to a limit of memory. On a node through a slot, beyond it by
/// a reduction.
class Agreement {
public:
    Agreement(State& state, NodeSlot& slot, LocalError mine, Call call, bool limited = false);
    ~Agreement();
    Agreement(const Agreement&) = delete;
    Agreement& operator=(const Agreement&) = delete;

    /// Tells the processes of the node, and a number to each rank of them where there are any.
    /// Never waits.
    void post(const std::vector<std::int64_t>& counts = {});
    /// Tells those beyond it. Never waits. All processes begin theirs in the same order.
    void begin();
    /// Once it is true, is_refused and is_limited have the answers of all processes.
    bool is_complete();
    bool is_refused() const { return failed() || all_[2] != -all_[3]; }
    bool is_limited() const { return all_[1] != 0; }
    /// If any process has failed, all throw the error of the lowest one; if they make different
    /// calls, all throw mismatch. Collective where it throws.
    void raise_refusal() const;

    /// Posts, waits and raises. Returns whether any process has a limit. Collective.
    bool reach();
    /// The same, and exchanges the numbers of elements: fills recv_counts. A process that has
    /// failed sends none.
    bool reach_with_counts();

private:
    bool failed() const { return all_[0] != 0; }
    void count_beyond_node();

    State& s_;
    NodeSlot& slot_;
    LocalError mine_;
    Call call_;
    std::shared_ptr<NoticeNumbers> numbers_;  ///< this process's, then the largest of other nodes
    NoticeNumbers all_{};                     ///< the largest of all
    MPI_Request request_ = MPI_REQUEST_NULL;
};

// A move of elements between start and wait.

/// What a process brings to a move that it starts.
struct StartArguments {
    LocalError local_error;  ///< what kept it from taking part
    std::vector<ElementColumn> columns;
    std::vector<ElementBuffer> results;
};

/// A move in flight. It is the round of an operation that first hears whether all processes take
/// part, then carries the elements; where one does not, it ends there, and all raise that when they
/// wait.
class StartedMove final : public SlotOperation {
public:
    /// Begins with a slot, and waits for nobody. Throws peer_failed.
    StartedMove(State& state, SlotClaim claim, StartArguments arguments);
    ~StartedMove() override;
    StartedMove(const StartedMove&) = delete;
    StartedMove& operator=(const StartedMove&) = delete;

    /// Both are collective only where some process could not take part: then they raise that.
    bool test();
    void wait(std::optional<double> timeout_seconds);
    /// Until test or wait has told of its end, whichever thread completed it.
    bool in_flight() const { return !is_told_ && !round_.has_failed(); }

    void announce() override;
    void begin() override {}
    std::vector<std::int64_t> waiting_for() const override;
    void keep_memory() noexcept override;

private:
    bool advance() override;

    SlotClaim claim_;
    StartArguments brought_;
    Agreement agreement_;
    bool agreed_ = false;
    std::size_t next_ = 0;  ///< column that no carrier has taken yet
    OperationPtr now_;
    Round round_;
    bool is_told_ = false;  ///< of the thread that uses the migration
};

}  // namespace datamover::distribute

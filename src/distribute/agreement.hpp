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
class Call {
public:
    /// `migration`: its number on the communicator, where there is one already.
    Call(const char* what, const CarryOptions& how, std::int64_t migration = 0)
        : what_(what), how_(how), migration_(migration) {}
    Call& with(std::span<const ElementColumn> columns) {
        columns_ = columns;
        return *this;
    }
    Call& with(Op op, ArrivedBy by) {
        op_ = op;
        by_ = by;
        return *this;
    }
    /// Not negative, and small enough for a Notice.
    std::int64_t signature() const;
    std::string describe() const;

private:
    const char* what_;
    CarryOptions how_;
    std::int64_t migration_;
    std::span<const ElementColumn> columns_{};
    Op op_ = Op::replace;
    ArrivedBy by_ = ArrivedBy::any;
};

/// All throw the error of the lowest process that has one; likewise where they call different
/// things. True when anybody has to keep to a limit. Collective.
bool agree(State& state, NodeSlot& slot, const LocalError& mine, const Call& call,
           bool limited = false);
/// The part of it after notices have been exchanged.
void raise_if_needed(const mpi::ProcessGroup& group, const Notices& all, const LocalError& mine,
                     const Call& call);

/// One exchange of notices: on a node through a slot, beyond it by a reduction.
class NoticeExchange {
public:
    NoticeExchange(const State& state, NodeSlot& slot, const Notice& mine);
    ~NoticeExchange();
    NoticeExchange(const NoticeExchange&) = delete;
    NoticeExchange& operator=(const NoticeExchange&) = delete;

    /// Tells the processes of the node, and a number to each rank of them where there are any.
    /// Never waits.
    void post(const std::vector<std::int64_t>& counts = {});
    /// Tells those beyond it. Never waits. All processes begin theirs in the same order.
    void begin();
    /// Once it is true, `result` tells what all have told.
    bool is_complete();
    Notices result() const;

private:
    const State& s_;
    NodeSlot& slot_;
    std::shared_ptr<NoticeNumbers> numbers_;  ///< this process's, then the largest of all
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
class StartedMove {
public:
    /// Begins, and waits for nobody, unless the operation that was begun as many before as there
    /// may be in flight is not complete: then for that. All processes begin theirs in the same
    /// order. Throws peer_failed, invalid_state (too many in flight).
    StartedMove(State& state, StartArguments arguments);
    ~StartedMove();
    StartedMove(const StartedMove&) = delete;
    StartedMove& operator=(const StartedMove&) = delete;

    /// Both are collective only where some process could not take part: then they raise that.
    bool test();
    void wait(std::optional<double> timeout_seconds);
    /// Until test or wait has told of its end, whichever thread completed it.
    bool in_flight() const;

private:
    class Steps;

    SlotClaim claim_;
    std::unique_ptr<Steps> steps_;
    Round round_;
    bool is_told_ = false;  ///< of the thread that uses the migration
};

}  // namespace datamover::distribute

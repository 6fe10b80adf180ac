// SPDX-License-Identifier: BSD-3-Clause
// Rounds: one start and wait of an operation.
//
// A round is pushed on by its owner's test and wait, by any other test or wait of the same process,
// or by the progress thread. Whoever pushes it holds its claim, so nobody else does at the same
// time. Of several threads that wait for it one takes note of its end, and keeps the claim: that of
// an idle round is nobody's to take.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datamover/advanced/user_transport.hpp"
#include "datamover/error.hpp"
#include "mpi/process_group.hpp"

namespace datamover {

/// What a round carries out: a bound mover, or another operation in which processes move data.
class Operation {
public:
    virtual ~Operation() = default;
    /// Tells peers that this process has started. Never waits, moves nothing.
    virtual void announce() = 0;
    /// Begins without waiting.
    virtual void begin() = 0;
    /// Does what can be done now.
    virtual Progress progress() = 0;
    virtual std::vector<std::int64_t> waiting_for() const = 0;
    /// Whether it calls MPI.
    virtual bool sends_messages() const = 0;
    /// Whether it gets on only while it is pushed, so that who waits for it does not sleep.
    virtual bool needs_polls() const { return false; }
    /// The round was given up: peers that look at the memory of this process hear so, and whatever
    /// they may still touch is kept. Never waits.
    virtual void keep_memory() noexcept = 0;
};

/// What becomes of a round when the deadline of a wait passes, in the words of the error. It is
/// given up by whoever made it for one call alone.
enum class AfterTimeout { in_flight, given_up };

/// How far a round has come, and the claim of who changes that. Of any thread.
class RoundState {
public:
    bool in_flight() const {
        const Status status = status_.load(std::memory_order_acquire);
        return status != Status::idle && status != Status::held;
    }
    /// Keeps other threads from starting a round while the operation changes; false in flight, and
    /// where another thread holds it.
    bool try_lock() {
        Status idle = Status::idle;
        return status_.compare_exchange_strong(idle, Status::held);
    }
    void unlock() { status_.store(Status::idle, std::memory_order_release); }

protected:
    friend class ProgressEngine;
    enum class Status { idle, held, in_flight, complete, failed };

    /// For the holder of the claim, who alone changes what is in flight.
    Status status() const { return status_.load(std::memory_order_relaxed); }
    bool claim() { return !claimed_.exchange(true, std::memory_order_acquire); }
    void release() { claimed_.store(false, std::memory_order_release); }
    /// Claims as soon as nobody else pushes; false where the round is over.
    bool claim_in_flight();

    std::atomic<Status> status_{Status::idle};

private:
    std::atomic<bool> claimed_{true};
};

/// The state of one start … wait of an operation; used again for the next.
class Round : public RoundState {
public:
    /// `what` names the operation in messages: "mover".
    Round(mpi::ProcessGroupPtr group, Operation& operation, const char* what,
          AfterTimeout after_timeout = AfterTimeout::in_flight)
        : group_(std::move(group)),
          operation_(operation),
          what_(what),
          after_timeout_(after_timeout) {}
    /// In flight, the round is given up, and all processes are told.
    ~Round();

    /// Throws invalid_state in flight, and from a thread that may not call MPI; peer_failed.
    void start();
    /// Throws invalid_state, naming the call, where none is in flight.
    void require_in_flight(const char* call) const;
    /// Does what can be done now; true when complete, also where another thread has taken note of
    /// that before. Throws what went wrong: then the round is over.
    bool test();
    /// The same when complete. Throws timeout, naming the processes waited for, or
    /// mpi::Interrupted: the round is then still in flight.
    void wait(std::optional<double> timeout_seconds);
    /// Ends a round in flight, telling all processes that it was given up. Never waits for peers.
    void give_up() noexcept;
    /// Whether it is over because something went wrong.
    bool has_failed() const { return !in_flight() && error_.has_value(); }

    struct Counters {
        std::atomic<double> wait_seconds{0};  ///< some are lost where several threads wait at once
        std::atomic<std::int64_t> completed{0};  ///< written with the claim
    };
    const Counters& counters() const { return counters_; }

private:
    friend class ProgressEngine;

    /// Pushes on; only for the holder of the claim. Never throws. True when anything was done.
    bool push() noexcept;
    void fail(const Error& why) noexcept;
    struct PollResult {
        bool moved = false, finished = false;
    };
    /// Pushes on where nobody else does, and takes note of an end: then it throws what went wrong.
    PollResult poll();
    /// Takes note of the end, for the holder of the claim, who keeps it; true.
    bool end();
    /// Whether another thread has taken note of the end; throws what went wrong.
    bool was_ended() const;
    /// Gives the round up where `check` throws what an other process's failure throws.
    template <typename Check>
    void unless_failed(Check check);
    /// Returns where the round is over meanwhile.
    void throw_timeout(double seconds);

    mpi::ProcessGroupPtr group_;
    Operation& operation_;
    const char* what_;
    AfterTimeout after_timeout_;
    bool begun_ = false;  ///< guarded by the claim
    /// Guarded by the claim; once set it stays, since the group of what has failed starts nothing.
    std::optional<Error> error_;
    Counters counters_;
    Round *next_ = nullptr, *previous_ = nullptr;  ///< among the rounds in flight
};

/// All rounds in flight of this process.
class ProgressEngine {
public:
    /// The one of this process; it is never destroyed.
    static ProgressEngine& of_process();

    void add(Round& round);
    /// The caller holds the claim of `round`, which may be there or not.
    void remove(Round& round);
    /// Pushes all rounds on but one, those that nobody else pushes now. `by_thread`: only those
    /// that the progress thread may push. True when anything was done.
    bool push_others(const Round* own, bool by_thread);

    /// Whether a thread pushes rounds on, so that start has nothing to do but announce.
    bool has_thread(const Operation& operation) const {
        return thread_runs() && thread_may_push(operation);
    }
    /// Starts the thread, or adds a user to the one that runs; stop takes one away.
    void start_thread();
    void stop_thread();
    /// Ends the thread for good, whoever uses it: MPI ends.
    void end_thread();
    bool thread_runs() const { return thread_runs_.load(std::memory_order_acquire); }
    bool thread_may_send() const { return thread_may_send_; }

private:
    ProgressEngine() = default;
    struct Thread;
    void join_thread();
    void run_thread();
    Round* next_claimed(Round* after, const Round* own, bool by_thread);
    void unlink(Round& round);
    bool thread_may_push(const Operation& operation) const {
        return thread_may_send_ || !operation.sends_messages();
    }

    std::atomic_flag list_lock_ = ATOMIC_FLAG_INIT;
    Round* first_ = nullptr;
    std::atomic<int> count_{0};
    std::atomic<bool> thread_runs_{false};
    std::atomic<bool> thread_may_send_{false};
    std::mutex users_lock_;  ///< held while the thread is made or ended; not taken by it
    int users_ = 0;
    Thread* thread_ = nullptr;
};

// The progress engine: pushes rounds on in waits of this process, or in a thread of its own.

/// Starts the progress thread at the first call, once, where DATAMOVER_PROGRESS is "thread"; it
/// ends before MPI does. Throws invalid_argument for other words.
void start_thread_if_environment_says_so();

}  // namespace datamover

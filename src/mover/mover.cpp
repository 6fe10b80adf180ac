// SPDX-License-Identifier: BSD-3-Clause
// Movers: execute a plan between arrays, repeatedly.
#include "datamover/mover.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "bound_operation.hpp"
#include "geometry/make_error.hpp"
#include "round.hpp"
#include "tuning.hpp"

namespace datamover {
namespace {

/// Adds plan `number` of those that were given.
void add(const PlannedArrays& planned, std::size_t number, Moves& moves) {
    if (planned.sources.size() != planned.destinations.size() || planned.sources.empty())
        throw make_error(ErrorCode::invalid_argument, "plan ", number, " comes with ",
                         planned.sources.size(), " sources and ", planned.destinations.size(),
                         " destinations; it needs equally many, at least one");
    for (std::size_t i = 0; i < planned.sources.size(); ++i)
        moves.motions.push_back(
            {moves.plans.size(), {planned.sources[i], planned.destinations[i]}, planned.alpha});
    moves.plans.push_back({planned.plan, {}, {}, false});
}

/// All plans at once, in one phase, or each in a phase of its own.
std::vector<Moves> moves_of(std::span<const PlannedArrays> given, bool in_phases) {
    if (given.empty())
        throw Error(ErrorCode::invalid_argument, "a mover needs at least one plan with arrays");
    std::vector<Moves> phases(in_phases ? given.size() : 1);
    for (std::size_t i = 0; i < given.size(); ++i) add(given[i], i, phases[in_phases ? i : 0]);
    for (Moves& moves : phases) moves.phases = static_cast<std::int64_t>(phases.size());
    return phases;
}

/// Takes part in a binding of the others as one that cannot: all raise the error. Collective.
[[noreturn]] void refuse_binding(const mpi::ProcessGroupPtr& group, const Error& error) {
    mpi::notifying_shortage(*group, [&] {
        Moves nothing;
        bind_moves(group, nothing, BindRequest({}), error);
    });
    throw error;
}

/// Keeps other threads from starting a mover while this one changes it. Not held if it is in
/// flight.
std::unique_lock<Round> try_locked(Round& round) {
    return {round, std::try_to_lock};
}

}  // namespace

struct [[gnu::visibility("hidden")]] Mover::State {
    mpi::ProcessGroupPtr group;
    BindRequest request;
    bool measures = false;
    std::vector<Moves> phases;
    BoundOperation operation;
    Round round;
    std::vector<MoverTrial> trials;
    std::atomic<bool> freed = false;

    State(mpi::ProcessGroupPtr of_group, const MoverOptions& options)
        : group(std::move(of_group)),
          request(request_of(options)),
          measures(options.transport == measure),
          operation(group),
          round(group, operation, "mover") {}

    static constexpr const char* measure = "measure";

    static BindRequest request_of(const MoverOptions& options) {
        BindRequest made(options);
        if (options.transport == measure) made.transports = "auto";
        made.uses_memory = options.transport == measure || options.transport == "auto";
        return made;
    }

    /// given() returns the plans and arrays, for which memory may be short.
    template <class Given>
    static std::shared_ptr<State> bound(MPI_Comm comm, Given&& given, bool in_phases,
                                        const MoverOptions& options) {
        auto group = mpi::ProcessGroup::of(comm);
        return mpi::notifying_shortage(*group, [&] {
            auto state = std::make_shared<State>(group, options);
            std::optional<Error> mine;
            try {
                start_thread_if_environment_says_so();
                state->phases = moves_of(given(), in_phases);
            } catch (const Error& e) {
                mine = e;
                state->phases.resize(1);
            }
            state->take(state->phases, mine);
            if (state->measures && !state->remembered()) state->tune(default_seconds, true);
            return state;
        });
    }

    bool remembered() const {
        return std::ranges::all_of(operation.phases(), &Binding::remembered);
    }

    /// The phases share what memory there may be.
    BindRequest request_of_one(const std::vector<Moves>& moves) const {
        BindRequest made = request;
        const std::int64_t max_bytes = request.options.max_bytes;
        if (max_bytes > 0)
            made.options.max_bytes =
                std::max<std::int64_t>(1, max_bytes / static_cast<std::int64_t>(moves.size()));
        return made;
    }

    /// Binds, and replaces what was bound before.
    void take(std::vector<Moves>& moves, const std::optional<Error>& mine) {
        const BindRequest of_one = request_of_one(moves);
        std::vector<Binding> bindings;
        for (Moves& phase : moves) bindings.push_back(bind_moves(group, phase, of_one, mine));
        operation.take(std::move(bindings));
    }

    /// Gives back what a held mover has.
    void free() noexcept {
        operation.unlock();
        for (Moves& moves : phases) moves.motions.clear();
        freed = true;
    }

    static constexpr double default_seconds = 0.2;

    void tune(double seconds, bool looks_in_file) {
        TuningResult found =
            tuned(group, phases, request_of_one(phases).options, seconds, looks_in_file);
        if (found.transports.empty()) {  // all stays as it is
            for (MoverTrial& trial : found.trials) trial.transport = request.transports;
            trials = std::move(found.trials);
            return;
        }
        const BindRequest before = request;
        request.transports = found.transports;
        if (found.transports != "auto") request.transports += "+auto";
        request.why = found.why;
        request.uses_memory = false;
        try {
            take(phases, {});
        } catch (const Error& e) {
            request = before;  // it is bound as before, and so it stays
            // The fastest may be refused where many movers have it, or memory is short; all
            // processes hear the same.
            if (e.code() != ErrorCode::unsupported && e.code() != ErrorCode::no_memory) throw;
            for (MoverTrial& trial : found.trials) {
                if (trial.chosen) trial.passed_over = e.what();
                trial.chosen = trial.transport == before.transports;
            }
        }
        trials = std::move(found.trials);
    }
};

Mover::Mover(MPI_Comm comm, std::span<const PlannedArrays> moves, const MoverOptions& options)
    : state_(State::bound(comm, [&] { return moves; }, false, options)) {}

Mover::Mover(MPI_Comm comm, const MotionPlan& plan, const ArrayPart& source,
             const ArrayPart& destination, const MoverOptions& options)
    : state_(State::bound(
          comm, [&] { return std::vector{PlannedArrays(plan, {source}, {destination})}; }, false,
          options)) {}

Mover::Mover(MPI_Comm comm, const MotionPlan& plan, const Array& source, const Array& destination,
             const MoverOptions& options)
    : Mover(comm, plan, source.part(), destination.part(), options) {}

Mover Mover::in_phases(MPI_Comm comm, std::span<const PlannedArrays> phases,
                       const MoverOptions& options) {
    Mover mover;
    mover.state_ = State::bound(comm, [&] { return phases; }, true, options);
    return mover;
}

void Mover::refuse(MPI_Comm comm, const Error& error) {
    refuse_binding(mpi::ProcessGroup::of(comm), error);
}

void Mover::refuse_rebind(const Error& error) {
    if (!state_) throw error;
    refuse_binding(state_->group, error);
}

void Mover::rebind(const ArrayPart& source, const ArrayPart& destination) {
    rebind(std::span(&source, 1), std::span(&destination, 1));
}

void Mover::rebind(std::span<const ArrayPart> sources, std::span<const ArrayPart> destinations) {
    constexpr const char* not_now = "a mover in flight (or freed) cannot be bound again";
    if (!state_) throw Error(ErrorCode::invalid_state, not_now);
    mpi::notifying_shortage(*state_->group, [&] {
        const auto lock = try_locked(state_->round);
        if (!lock) refuse_binding(state_->group, Error(ErrorCode::invalid_state, not_now));
        std::vector<Moves> phases = state_->phases;
        std::size_t pairs = 0;
        for (const Moves& moves : phases) pairs += moves.motions.size();
        std::optional<Error> mine;
        if (sources.size() != pairs || destinations.size() != pairs)
            mine = make_error(ErrorCode::invalid_argument, "the mover has ", pairs,
                              " pairs of arrays, ", sources.size(), " sources and ",
                              destinations.size(), " destinations were given");
        std::size_t next = 0;
        for (Moves& moves : phases)
            for (std::size_t m = 0; !mine && m < moves.motions.size(); ++m, ++next)
                moves.motions[m].array = {sources[next], destinations[next]};
        state_->take(phases, mine);
        state_->phases = std::move(phases);
    });
}

void Mover::tune(double seconds) {
    constexpr const char* not_now = "a mover in flight (or freed) cannot be tuned";
    if (!state_) throw Error(ErrorCode::invalid_state, not_now);
    mpi::notifying_shortage(*state_->group, [&] {
        const auto lock = try_locked(state_->round);
        mpi::collectively(*state_->group, [&] {  // it may be so here alone
            if (!lock) throw Error(ErrorCode::invalid_state, not_now);
        });
        state_->tune(seconds, false);
    });
}

void Mover::refuse_tune(const Error& error) {
    if (state_) state_->group->agree(error);
    throw error;
}

std::vector<MoverTrial> Mover::trials() const {
    return state_ ? state_->trials : std::vector<MoverTrial>{};
}

void Mover::start() {
    if (!state_ || state_->freed)
        throw Error(ErrorCode::invalid_state, "the mover is not bound (or was freed)");
    state_->round.start();
}

bool Mover::test() {
    if (!state_) throw Error(ErrorCode::invalid_state, "test was called without start");
    state_->round.require_in_flight("test");
    return state_->round.test();
}

void Mover::wait(std::optional<double> timeout_seconds) {
    if (!state_) throw Error(ErrorCode::invalid_state, "wait was called without start");
    state_->round.require_in_flight("wait");
    state_->round.wait(timeout_seconds);
}

void Mover::operator()(std::optional<double> timeout_seconds) {
    start();
    wait(timeout_seconds);
}

bool Mover::in_flight() const {
    return state_ && state_->round.in_flight();
}

MoverCounters Mover::counters() const {
    MoverCounters c;
    if (!state_) return c;
    for (const Binding& phase : state_->operation.phases()) {
        c.messages_sent += phase.per_round.messages_sent;
        c.messages_received += phase.per_round.messages_received;
        c.bytes_sent += phase.per_round.bytes_sent;
        c.bytes_received += phase.per_round.bytes_received;
        c.bytes_kept += phase.per_round.bytes_kept;
    }
    c.rounds = state_->round.counters().completed;
    c.wait_seconds = state_->round.counters().wait_seconds;
    return c;
}

std::vector<MoverPair> Mover::pairs() const {
    std::vector<MoverPair> all;
    if (!state_) return all;
    for (const Binding& phase : state_->operation.phases())
        for (const auto& t : phase.transports)
            all.insert(all.end(), t->lines().begin(), t->lines().end());
    return all;
}

std::int64_t Mover::extra_bytes() const {
    std::int64_t bytes = 0;
    if (!state_) return bytes;
    for (const Binding& phase : state_->operation.phases())
        for (const auto& t : phase.transports) bytes += t->extra_bytes();
    return bytes;
}

void Mover::close() {
    if (!state_ || state_->freed) return;
    auto lock = try_locked(state_->round);
    if (!lock)
        throw Error(ErrorCode::invalid_state, "a mover in flight cannot be freed: wait first");
    state_->free();
    lock.release();  // nothing is ever started again
}

void Mover::abort() noexcept {
    if (!state_) return;
    state_->round.give_up();
    if (state_->round.try_lock()) state_->free();
}

}  // namespace datamover

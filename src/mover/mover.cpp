// SPDX-License-Identifier: BSD-3-Clause
// How is a plan carried out between arrays, again and again?
#include "datamover/mover.hpp"

#include <string>
#include <utility>

#include "binding.hpp"
#include "mpi/waiting.hpp"
#include "progress_from_environment.hpp"
#include "round.hpp"

namespace datamover {
namespace {

/// A bound mover as something that goes in rounds.
class BoundOperation final : public Operation {
public:
    explicit BoundOperation(mpi::ProcessGroupPtr group) : group_(std::move(group)) {}

    void take(Binding binding) {
        binding_ = std::move(binding);
        complete_.assign(binding_.transports.size(), 0);
    }
    const Binding& binding() const { return binding_; }

    void announce() override {
        for (const auto& t : binding_.transports) t->announce();
    }
    void begin() override {
        for (std::size_t i = 0; i < complete_.size(); ++i) {
            complete_[i] = 0;
            binding_.transports[i]->start();
        }
    }
    Progress progress() override {
        bool all = true, any = false;
        for (std::size_t i = 0; i < complete_.size(); ++i) {
            if (complete_[i]) continue;
            const Progress made = binding_.transports[i]->progress();
            any = any || made != Progress::none;
            complete_[i] = made == Progress::complete;
            all = all && complete_[i];
        }
        if (all) return Progress::complete;
        return any ? Progress::some : Progress::none;
    }
    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers;
        for (std::size_t i = 0; i < complete_.size(); ++i) {
            if (complete_[i]) continue;
            const auto more = binding_.transports[i]->waiting_for();
            peers.insert(peers.end(), more.begin(), more.end());
        }
        return peers;
    }
    bool sends_messages() const override { return binding_.sends_messages; }
    void keep_memory() noexcept override {
        for (const auto& memory : binding_.memory) group_->keep(memory);
    }

private:
    mpi::ProcessGroupPtr group_;
    Binding binding_;
    std::vector<char> complete_;  ///< per transport, in this round
};

std::vector<PlannedArrays> one_move(const MotionPlan& plan, const ArrayPart& source,
                                    const ArrayPart& destination) {
    return {{plan, {source}, {destination}}};
}

Moves moves_of(std::span<const PlannedArrays> given) {
    Moves moves;
    for (const PlannedArrays& planned : given) {
        if (planned.sources.size() != planned.destinations.size() || planned.sources.empty())
            throw Error(ErrorCode::invalid_argument,
                        "plan " + std::to_string(moves.plans.size()) + " comes with " +
                            std::to_string(planned.sources.size()) + " sources and " +
                            std::to_string(planned.destinations.size()) +
                            " destinations; it needs equally many, at least one");
        for (std::size_t i = 0; i < planned.sources.size(); ++i)
            moves.motions.push_back(
                {moves.plans.size(), {planned.sources[i], planned.destinations[i]}});
        moves.plans.push_back({planned.plan, {}, {}, false});
    }
    if (moves.motions.empty())
        throw Error(ErrorCode::invalid_argument, "a mover needs at least one plan with arrays");
    return moves;
}

}  // namespace

struct Mover::State {
    mpi::ProcessGroupPtr group;
    MoverOptions options;
    Moves moves;
    BoundOperation operation;
    Round round;
    bool freed = false;

    State(mpi::ProcessGroupPtr of_group, const MoverOptions& given)
        : group(std::move(of_group)),
          options(given),
          operation(group),
          round(group, operation, "mover") {}
};

Mover::Mover(MPI_Comm comm, std::span<const PlannedArrays> moves, const MoverOptions& options) {
    start_thread_if_environment_says_so();
    const auto group = mpi::ProcessGroup::of(comm);
    auto state = std::make_shared<State>(group, options);
    std::optional<Error> mine;
    try {
        state->moves = moves_of(moves);
    } catch (const Error& e) {
        mine = e;
    }
    state->operation.take(bind_moves(group, state->moves, options, mine));
    state_ = std::move(state);
}

Mover::Mover(MPI_Comm comm, const MotionPlan& plan, const ArrayPart& source,
             const ArrayPart& destination, const MoverOptions& options)
    : Mover(comm, one_move(plan, source, destination), options) {}

Mover::Mover(MPI_Comm comm, const MotionPlan& plan, const XArray& source, const XArray& destination,
             const MoverOptions& options)
    : Mover(comm, plan, source.part(), destination.part(), options) {}

void Mover::refuse(MPI_Comm comm, const Error& error) {
    Moves nothing;
    bind_moves(mpi::ProcessGroup::of(comm), nothing, {}, error);
    throw error;
}

void Mover::rebind(const ArrayPart& source, const ArrayPart& destination) {
    rebind(std::span(&source, 1), std::span(&destination, 1));
}

void Mover::rebind(std::span<const ArrayPart> sources, std::span<const ArrayPart> destinations) {
    if (!state_ || state_->freed || in_flight())
        throw Error(ErrorCode::invalid_state, "a mover in flight (or freed) cannot be bound again");
    Moves moves = state_->moves;
    std::optional<Error> mine;
    if (sources.size() != moves.motions.size() || destinations.size() != moves.motions.size())
        mine = Error(ErrorCode::invalid_argument,
                     "the mover has " + std::to_string(moves.motions.size()) +
                         " pairs of arrays, " + std::to_string(sources.size()) + " sources and " +
                         std::to_string(destinations.size()) + " destinations were given");
    for (std::size_t m = 0; !mine && m < moves.motions.size(); ++m)
        moves.motions[m].array = {sources[m], destinations[m]};
    Binding fresh = bind_moves(state_->group, moves, state_->options, mine);
    state_->operation.take(std::move(fresh));
    state_->moves = std::move(moves);
}

void Mover::start() {
    if (!state_ || state_->freed)
        throw Error(ErrorCode::invalid_state, "the mover is not bound (or was freed)");
    state_->round.start();
}

bool Mover::test() {
    if (!state_) throw Error(ErrorCode::invalid_state, "test was called without start");
    return state_->round.test();
}

void Mover::wait(std::optional<double> timeout_seconds) {
    if (!state_) throw Error(ErrorCode::invalid_state, "wait was called without start");
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
    if (!state_) return {};
    MoverCounters c = state_->operation.binding().per_round;
    c.rounds = state_->round.completed();
    c.wait_seconds = state_->round.wait_seconds();
    return c;
}

std::vector<MoverPair> Mover::pairs() const {
    return state_ ? state_->operation.binding().pairs() : std::vector<MoverPair>{};
}

std::int64_t Mover::extra_bytes() const {
    std::int64_t bytes = 0;
    if (state_)
        for (const auto& t : state_->operation.binding().transports) bytes += t->extra_bytes();
    return bytes;
}

void Mover::free() {
    if (!state_) return;
    if (in_flight())
        throw Error(ErrorCode::invalid_state, "a mover in flight cannot be freed: wait first");
    give_up();
}

void Mover::give_up() noexcept {
    if (!state_) return;
    state_->round.give_up();
    Binding empty;
    empty.per_round = state_->operation.binding().per_round;
    state_->operation.take(std::move(empty));
    state_->moves.motions.clear();
    state_->freed = true;
}

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Moves of elements between start and wait.
#include "agreement.hpp"

#include <algorithm>
#include <utility>

#include "migration_state.hpp"
#include "mpi/byte_message.hpp"

namespace datamover::distribute {
namespace {

/// Only start, which is no call of all processes, is refused where too many are in flight here.
std::shared_ptr<NodeChannel> with_room(std::shared_ptr<NodeChannel> channel) {
    channel->check_room();
    return channel;
}

}  // namespace

class StartedMove::Steps final : public Operation {
public:
    Steps(State& state, NodeSlot& slot, StartArguments arguments)
        : s_(state),
          slot_(slot),
          brought_(std::move(arguments)),
          call_(Call("start of a move", {"partition", true}, state.number).with(brought_.columns)),
          notices_(state, slot, {brought_.local_error.told.has_value(), false, call_.signature()}) {
    }

    void announce() override { notices_.begin(); }
    void begin() override {}

    Progress progress() override {
        Progress made = Progress::none;
        if (!heard_) {
            if (!notices_.is_complete()) return made;
            heard_ = notices_.result();
            made = Progress::some;
        }
        if (refused()) return Progress::complete;
        while (carry_on(made)) {
        }
        return now_ ? made : Progress::complete;
    }

    /// Once complete: throws what kept any process from taking part. Collective where it throws.
    void raise_refusals() const {
        if (heard_) raise_if_needed(*s_.group, *heard_, brought_.local_error, call_);
    }

    std::vector<std::int64_t> waiting_for() const override {
        if (now_) return now_->waiting_for();
        std::vector<std::int64_t> others;
        for (int r = 0; r < s_.nprocs(); ++r)
            if (r != s_.rank()) others.push_back(r);
        return others;
    }
    bool sends_messages() const override { return s_.nprocs() > 1; }
    bool needs_polls() const override { return s_.channel->messages_needed(); }
    void keep_memory() noexcept override {
        if (now_) now_->keep_memory();
    }

private:
    bool refused() const { return heard_->failed || heard_->differ; }

    /// Pushes the carrier of some columns on, and begins the next after it; true while there is one
    /// that may go on now.
    bool carry_on(Progress& made) {
        if (!now_) {
            if (next_ == brought_.columns.size()) return false;
            begin_next();
            made = Progress::some;
        }
        const Progress now = now_->progress();
        if (now != Progress::complete) {
            if (now == Progress::some) made = now;
            return false;
        }
        now_.reset();
        made = Progress::some;
        return true;
    }

    void begin_next() {
        const std::size_t n = std::min(offered_columns, brought_.columns.size() - next_);
        const ColumnTransfer some{std::span(brought_.columns).subspan(next_, n),
                                  std::span(brought_.results).subspan(next_, n)};
        next_ += n;
        now_ = make_transfer(s_, slot_, some);
        now_->begin();
    }

    State& s_;
    NodeSlot& slot_;
    StartArguments brought_;
    Call call_;
    NoticeExchange notices_;
    std::optional<Notices> heard_;
    std::size_t next_ = 0;  ///< column that no carrier has taken yet
    OperationPtr now_;
};

StartedMove::StartedMove(State& state, StartArguments arguments)
    : claim_(with_room(state.channel)),
      steps_(std::make_unique<Steps>(state, claim_.slot(), std::move(arguments))),
      round_(state.group, *steps_, "migration") {
    round_.start();
    claim_.give_up_after([this] { return round_.test(); });
}

/// Another thread that wants the slot may push the move on until the claim has ended.
StartedMove::~StartedMove() {
    round_.give_up();
    claim_.release();
}

bool StartedMove::in_flight() const {
    return !is_told_ && !round_.has_failed();
}

bool StartedMove::test() {
    if (!round_.test()) return false;
    is_told_ = true;
    steps_->raise_refusals();
    return true;
}

void StartedMove::wait(std::optional<double> timeout_seconds) {
    round_.wait(timeout_seconds);
    is_told_ = true;
    steps_->raise_refusals();
}

void SlotOperation::keep_memory() noexcept {
    for (memory::AllocationPtr& memory : used_) s_.group->keep(std::move(memory));
}

std::optional<memory::SharedPlace> SlotOperation::share(const std::byte* data, std::int64_t bytes) {
    memory::AllocationPtr memory = s_.group->pool().find(data, data + bytes);
    const auto place = memory::place_of(memory.get(), data);
    if (place) use(std::move(memory));
    return place;
}

void run(State& state, Operation& operation) {
    Round round(state.group, operation, "migration", AfterTimeout::given_up);
    round.start();
    round.wait({});
}

void propagating_errors(const State& state, const std::function<void()>& work) {
    mpi::check_still_running();
    state.group->check_alive();
    try {
        work();
    } catch (...) {
        state.group->fail(mpi::current_error(*state.group));
        throw;
    }
}

}  // namespace datamover::distribute

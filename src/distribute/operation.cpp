// SPDX-License-Identifier: BSD-3-Clause
// How is a move pushed on until it is complete, and what is kept where it fails?
#include "mpi/waiting.hpp"

#include "distribution_state.hpp"

namespace datamover::distribute {

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
    Round round(state.group, operation, "distribution");
    round.start();
    round.wait({});
}

void telling_failures(const State& state, const std::function<void()>& work) {
    state.group->check_alive();
    try {
        work();
    } catch (...) {
        state.group->fail(mpi::current_error(*state.group));
        throw;
    }
}

void wait_until(const State& state, const std::function<bool()>& done, mpi::Load load) {
    mpi::Waiting waiting(*state.group);
    if (load == mpi::Load::data) waiting.stay_awake();
    while (!done()) {
        waiting.pause();
        if (ProgressEngine::of_process().push_others(nullptr, false)) waiting.restart();
        if (waiting.expired())
            throw Error(ErrorCode::timeout, "process " + std::to_string(state.rank()) + " waited " +
                                                std::to_string(waiting.timeout_seconds()) +
                                                " s for the other processes to make the same call");
    }
}

}  // namespace datamover::distribute

// SPDX-License-Identifier: BSD-3-Clause
// Running the operation of a move, and memory that is retained if it fails.
#include "distribution_state.hpp"
#include "mpi/byte_message.hpp"

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
    Round round(state.group, operation, "distribution", AfterTimeout::given_up);
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

// SPDX-License-Identifier: BSD-3-Clause
// C interface of movers and progress: what is not generated.
#include "movers.hpp"

#include <mutex>

#include "datamover/progress.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace datamover::capi {

static std::vector<ArrayPart> parts(const datamover_array* const* arrays, std::int64_t count,
                                    const char* name) {
    std::vector<ArrayPart> all;
    for (const datamover_array* array : values(arrays, count, name))
        all.push_back(value_of(array, name));
    return all;
}

std::vector<PlannedArrays> planned(const datamover_move* moves, std::int64_t count) {
    std::vector<PlannedArrays> all;
    for (const datamover_move& move : values(moves, count, "moves"))
        all.push_back({value_of(move.plan, "plan"), parts(move.sources, move.num_arrays, "sources"),
                       parts(move.destinations, move.num_arrays, "destinations")});
    return all;
}

}  // namespace datamover::capi

// C interface: the progress thread and timeouts.

namespace {

/// One entry for each start that no stop has met.
struct Started {
    std::mutex mutex;
    std::vector<ProgressThread> threads;
};

Started& started() {
    static auto* all = new Started;
    return *all;
}

}  // namespace

int datamover_progress_start(int* carries_messages) {
    return guarded([&] {
        const std::lock_guard lock(started().mutex);
        started().threads.emplace_back();
        if (carries_messages) *carries_messages = started().threads.back().carries_messages();
    });
}

int datamover_progress_stop(void) {
    return guarded([&] {
        const std::lock_guard lock(started().mutex);
        if (started().threads.empty())
            throw Error(ErrorCode::invalid_state, "no progress thread was started");
        started().threads.pop_back();
    });
}

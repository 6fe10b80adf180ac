// SPDX-License-Identifier: BSD-3-Clause
// C interface: the progress thread and timeouts.
#include "datamover/progress.hpp"

#include <mutex>
#include <vector>

#include "handles.hpp"

using namespace datamover;
using namespace datamover::capi;

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

int datamover_set_timeout(double seconds) {
    return guarded([&] { set_default_timeout(seconds); });
}

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

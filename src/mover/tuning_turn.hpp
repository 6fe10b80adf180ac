// SPDX-License-Identifier: BSD-3-Clause
// The rounds of one turn of a candidate, which end when their time is spent.
#pragma once

#include <cstdint>
#include <vector>

namespace datamover {

/// The time of one round, and what has been spent since the turn began.
struct RoundTime {
    std::int64_t round_ns = 0, spent_ns = 0;
};

/// The times of rounds: one at least, as many as `most_rounds` at most, none once `most_ns` have
/// been spent. `run` carries a round out and returns its RoundTime.
template <class Run>
std::vector<std::int64_t> rounds_within(double most_ns, std::int64_t most_rounds, Run&& run) {
    std::vector<std::int64_t> times_ns;
    for (RoundTime time; times_ns.empty() || (std::ssize(times_ns) < most_rounds &&
                                              static_cast<double>(time.spent_ns) < most_ns);) {
        time = run();
        times_ns.push_back(time.round_ns);
    }
    return times_ns;
}

}  // namespace datamover

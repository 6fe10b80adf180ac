// SPDX-License-Identifier: BSD-3-Clause
// Which calls do sending processes compare, and how long do they wait in one round?
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "stream/connection.hpp"

namespace datamover::stream {

enum class Call : std::int64_t { add = 1, decide = 2, pack = 3, close = 4, end_step = 5 };

/// How a round of waiting ended on process 0.
inline constexpr std::int64_t goes_on = 0, is_done = 1, was_late = 2, was_interrupted = 3,
                              was_refused = 4;

/// While process 0 waits for a consumer the others hear from it this often.
inline constexpr std::chrono::milliseconds round_time{50};

using Deadline = std::optional<Clock::time_point>;

inline Deadline deadline_after(std::optional<double> seconds) {
    constexpr double most = 1e9;  // beyond it the clock's numbers end
    if (!seconds || *seconds > most) return std::nullopt;
    return Clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*seconds));
}

inline bool is_over(const Deadline& deadline) {
    return deadline && Clock::now() > *deadline;
}

}  // namespace datamover::stream

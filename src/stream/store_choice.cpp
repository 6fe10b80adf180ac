// SPDX-License-Identifier: BSD-3-Clause
// Comparison of two ways of writing messages while a program sends them.
#include "stream/store_choice.hpp"

#include <algorithm>
#include <bit>

namespace datamover::stream {

bool StoreChoice::goes_around(Time now, std::uint64_t bytes) {
    return by_width_[static_cast<std::size_t>(std::bit_width(bytes))].goes_around(now, bytes);
}

/// From one message to the next it takes what the slower of both ends takes, where the program does
/// nothing but send; where it does not, the choice is of little account.
bool StoreChoice::Size::goes_around(Time now, std::uint64_t bytes) {
    const bool is_settled = trials_ == most_trials;
    if (last_bytes_ != 0 && !is_settled)
        count(static_cast<double>(std::chrono::nanoseconds(now - last_begin_).count()) /
              static_cast<double>(last_bytes_));
    if (is_settled && ++calls_ == settled) trials_ = calls_ = 0;
    last_begin_ = now;
    last_bytes_ = bytes;
    return way_ == around;
}

void StoreChoice::Size::count(double ns_per_byte) {
    if (calls_ >= uncounted)
        samples_ns_[static_cast<std::size_t>(calls_ - uncounted)] = ns_per_byte;
    if (++calls_ == uncounted + counted) end_trial();
}

void StoreChoice::Size::end_trial() {
    const auto middle = samples_ns_.begin() + counted / 2;
    std::nth_element(samples_ns_.begin(), middle, samples_ns_.end());
    const bool is_first = trials_ < static_cast<int>(ways);
    best_ns_[way_] = is_first ? *middle : std::min(best_ns_[way_], *middle);
    calls_ = 0;
    if (++trials_ == most_trials)
        way_ = best_ns_[around] <= best_ns_[through] ? around : through;
    else
        way_ = way_ == around ? through : around;
}

}  // namespace datamover::stream

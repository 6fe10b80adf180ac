// SPDX-License-Identifier: BSD-3-Clause
// The rounds of one turn of a candidate: how many of them fit a time, and when to end early.
#pragma once

#include <algorithm>
#include <cstdint>

namespace datamover {

/// Divides the rounds that fit `most_ns` into parts of doubling length. The first rounds of a
/// candidate may have been faster than those that follow, as on a machine that others use: so no
/// part follows once the time has been spent.
class TuningTurn {
public:
    static constexpr std::int64_t most_rounds = 10000;

    TuningTurn(double most_ns, std::int64_t first_ns)
        : most_ns_(most_ns),
          left_(static_cast<std::int64_t>(
              std::clamp(most_ns / static_cast<double>(std::max<std::int64_t>(first_ns, 1)), 1.0,
                         static_cast<double>(most_rounds)))),
          part_((left_ + first_part - 1) / first_part) {}

    /// The rounds of the next part; 0 where the turn has ended.
    std::int64_t next_rounds() {
        const std::int64_t rounds = std::min(left_, part_);
        left_ -= rounds;
        part_ *= 2;
        return rounds;
    }

    /// Adds the time of a part on the slowest process; ends the turn once its time is spent.
    void add_ns(std::int64_t ns) {
        spent_ns_ += ns;
        if (static_cast<double>(spent_ns_) >= most_ns_) left_ = 0;
    }

private:
    static constexpr std::int64_t first_part = 64;  ///< the first part has one of so many rounds

    double most_ns_;
    std::int64_t left_, part_, spent_ns_ = 0;
};

}  // namespace datamover

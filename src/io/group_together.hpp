// SPDX-License-Identifier: BSD-3-Clause
// Agreement of the processes at one end of a stream, by a communicator.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mpi/process_group.hpp"
#include "mpi/waiting.hpp"
#include "stream/wire/together.hpp"

namespace datamover::io {

/// Waits as movers do: with deadlines, told of failures, interruptible; MPI goes on meanwhile.
class GroupTogether : public stream::Together {
public:
    explicit GroupTogether(mpi::ProcessGroupPtr group) : group_(std::move(group)) {}

    int rank() const override { return group_->rank(); }
    int size() const override { return group_->size(); }
    void agree(const std::optional<Error>& mine) override;
    std::vector<Numbers> gather(const Numbers& mine) override;
    void look_around() override;
    void check_interrupted() override { mpi::check_interrupt(); }
    std::chrono::milliseconds look_time() const override { return std::chrono::milliseconds(1); }

private:
    /// Whether the time has come for what was done last at `last`; then it is now.
    static bool is_due(std::atomic<std::int64_t>& last, std::chrono::nanoseconds interval);

    const mpi::ProcessGroupPtr group_;
    std::atomic<std::int64_t> let_progress_{0}, checked_{0};  ///< when, by the steady clock
};

/// The timeout of a call that is given none: that of set_default_timeout.
inline std::optional<double> timeout_or_default(std::optional<double> seconds) {
    return seconds ? seconds : mpi::default_timeout();
}
template <class Options>
Options with_timeout(Options options) {
    options.timeout_seconds = timeout_or_default(options.timeout_seconds);
    return options;
}

}  // namespace datamover::io

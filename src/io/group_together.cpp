// SPDX-License-Identifier: BSD-3-Clause
// Agreement of the processes at one end of a stream, by a communicator.
#include "group_together.hpp"

#include "mpi/byte_message.hpp"
#include "mpi/environment.hpp"
#include "mpi/waiting.hpp"

namespace datamover::io {
namespace {

/// A call of MPI takes a microsecond, asking Python for signals its interpreter's lock.
constexpr std::chrono::microseconds progress_interval{500};
constexpr std::chrono::milliseconds interrupt_interval{30};

}  // namespace

void GroupTogether::agree(const std::optional<Error>& mine) {
    if (size() == 1) return Together::agree(mine);
    group_->agree(mine);
}

std::vector<GroupTogether::Numbers> GroupTogether::gather(const Numbers& mine) {
    return size() == 1 ? Together::gather(mine) : group_->gather(mine);
}

/// Whoever sends to this process, by MPI, may stay in that before it comes to what is waited for.
void GroupTogether::look_around() {
    if (is_due(let_progress_, progress_interval) && mpi::is_running() && mpi::may_call_unasked())
        group_->failures().let_mpi_progress();
    if (is_due(checked_, interrupt_interval)) mpi::check_interrupt();
}

bool GroupTogether::is_due(std::atomic<std::int64_t>& last, std::chrono::nanoseconds interval) {
    const std::int64_t now = stream::Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    if (now - last.load(std::memory_order_relaxed) < interval.count()) return false;
    last.store(now, std::memory_order_relaxed);
    return true;
}

}  // namespace datamover::io

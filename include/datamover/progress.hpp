// SPDX-License-Identifier: BSD-3-Clause
// The progress thread and timeouts.
#pragma once

#include <memory>
#include <optional>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// A thread of this process that pushes on all movers in flight, for as long as one such object
/// lives: start() then only announces the move, and returns at once. It sleeps when there is
/// nothing to do, and gives way to those that compute. Where messages are sent (beyond the node, or
/// with transport "p2p") it needs MPI initialised with MPI_THREAD_MULTIPLE; at a lower level such
/// movers are carried by start, test and wait as without the thread. Also started for the rest of
/// the program by DATAMOVER_PROGRESS=thread in the environment. It ends before MPI does. Local.
/// Source: KeLP's proxy.
class ProgressThread {
public:
    /// Throws mpi when MPI is not running, no_memory when the system has no thread left.
    ProgressThread();
    ~ProgressThread();
    ProgressThread(ProgressThread&& other) noexcept;
    ProgressThread& operator=(ProgressThread&& other) noexcept;

    /// Whether it also carries messages.
    bool carries_messages() const;

private:
    bool runs_ = false;
};

/// Seconds after which a wait that is given no time of its own throws timeout: what was set, else
/// DATAMOVER_TIMEOUT of the environment, else none. Local.
std::optional<double> default_timeout();
/// Throws invalid_argument unless it is a positive number of seconds. Local.
void set_default_timeout(std::optional<double> seconds);

}  // namespace datamover

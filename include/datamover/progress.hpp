// SPDX-License-Identifier: BSD-3-Clause
// The progress thread and timeouts.
#pragma once

#include <memory>
#include <optional>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// A thread of this process that advances all movers in flight, as long as at least one such object
/// exists: start() then only announces the move and returns immediately. The thread sleeps when
/// there is nothing to do, and yields to threads that compute. To send messages (beyond the node,
/// or with transport "p2p"), MPI must be initialized with MPI_THREAD_MULTIPLE. At a lower level,
/// start, test and wait advance such movers as without the thread. Setting
/// DATAMOVER_PROGRESS=thread in the environment also starts it, for the rest of the program. It
/// ends before MPI does. Wait for movers before MPI_Finalize: MPICH 5 may end a program whose
/// thread sends messages at that moment (pthread_mutex_destroy: busy). Local. Source: KeLP's proxy.
class ProgressThread {
public:
    /// Start the thread. Throws mpi if MPI is not running, no_memory if the system has no thread
    /// left.
    ProgressThread();
    ~ProgressThread();
    ProgressThread(ProgressThread&& other) noexcept;
    ProgressThread& operator=(ProgressThread&& other) noexcept;

    /// Return whether the thread also moves messages.
    bool carries_messages() const;

private:
    bool runs_ = false;
};

/// Return the timeout of waits that are given none, in seconds: the value that was set, or else
/// DATAMOVER_TIMEOUT of the environment, or else none. When it expires, they throw timeout. Local.
std::optional<double> default_timeout();
/// Set that timeout; no value, or infinity: wait forever. Throws invalid_argument unless it is
/// above 0. In the calls that take a timeout, no value selects this default, infinity waits
/// forever, and 0 does not wait: the call throws timeout if it cannot finish now. Local.
void set_default_timeout(std::optional<double> seconds);

}  // namespace datamover

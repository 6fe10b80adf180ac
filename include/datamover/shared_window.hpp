// SPDX-License-Identifier: BSD-3-Clause
// Registration of user arrays that are located in shared memory of a node.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// Memory of a window that was made with MPI_Win_allocate_shared: user blocks in it are reached by
/// the processes of the node as the library's own arrays are, without messages, for movers that are
/// bound while the result lives; what is bound keeps it. Each process says it of its own blocks;
/// where a process has not said it, or has not mapped the window, its pairs move as others do.
/// The window must outlive the movers. Whether what a process writes overlaps what another one
/// reads is not looked at. Local. O(memory mappings of this process). Throws invalid_argument where
/// the `bytes` bytes at `memory` do not lie in one process's part of the window, or where it is a
/// window of another kind; unsupported where the system does not tell how MPI has mapped it.
std::shared_ptr<const void> in_window(MPI_Win window, void* memory, std::int64_t bytes);

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Registration of user arrays that are located in shared memory of a node.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// Register memory of a window made with MPI_Win_allocate_shared. The processes of the node then
/// access user blocks in it as they do the library's own arrays, without messages, in movers that
/// are bound while the result exists; bound movers keep it. Each process registers its own blocks.
/// The pairs of a process that has not registered them, or has not mapped the window, are moved as
/// others are. The window must outlive the movers. Overlaps of memory that one process writes and
/// another one reads are not detected. Throws invalid_argument if the `bytes` bytes at `memory` are
/// not inside one process's part of the window, or if the window is of another kind; unsupported if
/// the system does not report how MPI has mapped it. Local. O(memory mappings of this process).
std::shared_ptr<const void> in_window(MPI_Win window, void* memory, std::int64_t bytes);

}  // namespace datamover

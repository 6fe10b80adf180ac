// SPDX-License-Identifier: BSD-3-Clause
// One process's part of an array, as a mover binds it: of the library's, or of the program's own.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "datamover/element_update.hpp"
#include "datamover/export.h"
#include "datamover/memory_layout.hpp"

// Declared outside of the public part, so that shared libraries do not export it.
namespace datamover::memory {
struct Allocation;
}

namespace datamover DATAMOVER_PUBLIC {

/// The memory of one process's blocks, whoever owns it. It must exist as long as movers that are
/// bound to it; `allocation` and `owner` ensure this if they are set.
struct ArrayPart {
    std::byte* base = nullptr;
    MemoryLayout memory;
    Layout layout;  ///< the array's own layout, if any; must be the plan's
    std::int64_t elem_bytes = 0;
    ScalarType type = ScalarType::opaque;
    bool writable = true;
    /// Set if the library owns the memory: other processes of the node may then access it.
    std::shared_ptr<const memory::Allocation> allocation;
    /// Keeps the user's memory alive, also after an abandoned move.
    std::shared_ptr<const void> owner;
};

/// The memory of one block of a layout in the program: the element with local index x is at
/// origin + Σ x_d · strides_bytes_d.
struct UserBlock {
    std::int64_t block = 0;
    std::byte* origin = nullptr;  ///< the element with local index 0 in every dimension
    Point strides_bytes{};
    Point ghost_lower{}, ghost_upper{};  ///< extra elements per side of each dimension; empty: none
};

/// Make one process's part of an array, in memory that must outlive the movers bound to it. Throws
/// out_of_range (a block that the layout does not have), mismatch (dimensions), invalid_argument (a
/// block passed twice, negative ghosts, no memory for a block with elements). Local.
ArrayPart user_part(const Layout& layout, std::span<const UserBlock> blocks,
                    std::int64_t elem_bytes, ScalarType type = ScalarType::opaque,
                    bool writable = true);

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

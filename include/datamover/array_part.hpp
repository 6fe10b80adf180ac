// SPDX-License-Identifier: BSD-3-Clause
// One process's part of an array, as a mover binds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "datamover/element_update.hpp"
#include "datamover/export.h"
#include "datamover/memory_layout.hpp"

namespace datamover DATAMOVER_PUBLIC {

namespace memory {
struct Allocation;
}

/// The memory of one process's blocks, whoever owns it. It must live as long as movers that are
/// bound to it; `allocation` and `owner` see to that where they are set.
struct ArrayPart {
    std::byte* base = nullptr;
    MemoryLayout memory;
    Layout layout;  ///< the array's own layout, where it has one; must be the plan's
    std::int64_t elem_bytes = 0;
    ScalarType type = ScalarType::opaque;
    bool writable = true;
    /// Set when the memory is the library's: then other processes of the node may reach it.
    std::shared_ptr<const memory::Allocation> allocation;
    /// Keeps memory of the user's alive, also after a move that was given up.
    std::shared_ptr<const void> owner;
};

}  // namespace datamover

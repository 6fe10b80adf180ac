// SPDX-License-Identifier: BSD-3-Clause
// One process's part of an array, as a mover binds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

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

}  // namespace datamover

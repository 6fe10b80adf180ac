// SPDX-License-Identifier: BSD-3-Clause
// User arrays: arrays that a program already has become a part that a mover binds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "datamover/array_part.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

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

}  // namespace datamover

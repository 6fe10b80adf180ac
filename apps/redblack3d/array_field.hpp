// SPDX-License-Identifier: BSD-3-Clause
// View of a library array's block as the field of the stencil.
#pragma once

#include "datamover/datamover.hpp"
#include "stencil.hpp"

namespace redblack {

inline Index index_of(const datamover::Point& point) {
    return {point[0], point[1], point[2]};
}

// communication: begin

/// The block of an array of doubles over boxes, if this process holds it.
inline Field field_of(const datamover::Array& array, std::int64_t block) {
    if (!array.holds(block)) return {};
    const auto grid = array.grid<double>(block);
    return {grid.data(), grid.stride(0), grid.stride(1),
            index_of(array.layout().boxes()->region(block).lo()), index_of(grid.shape())};
}

// communication: end

}  // namespace redblack

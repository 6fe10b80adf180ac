// SPDX-License-Identifier: BSD-3-Clause
// How does a block of the library's array look to the stencil?
#pragma once

#include "datamover/datamover.hpp"
#include "stencil.hpp"

namespace redblack {

inline Index index_of(const datamover::Point& point) {
    return {point[0], point[1], point[2]};
}

// communication: begin

/// The block of an array of doubles over boxes, if this process holds it.
inline Field field_of(const datamover::XArray& array, std::int64_t block) {
    if (!array.holds(block)) return {};
    const datamover::Point& strides = array.block_memory(block).strides_bytes;
    const auto elems = [](std::int64_t bytes) { return bytes / std::int64_t{sizeof(double)}; };
    const datamover::Region box = array.layout().boxes()->region(block);
    return {reinterpret_cast<double*>(array.origin(block)), elems(strides[0]), elems(strides[1]),
            index_of(box.lo()), index_of(box.shape())};
}

// communication: end

}  // namespace redblack

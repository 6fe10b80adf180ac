// SPDX-License-Identifier: BSD-3-Clause
// Canonical form of a nest: everything that does not affect the copy is removed.
#pragma once

#include <cstdint>
#include <vector>

#include "encodings.hpp"

namespace datamover {

/// A nest whose axes stand in the order of the destination's memory, outermost first, with positive
/// destination strides, folded, and with contiguous inner axes merged into wider elements.
struct CanonicalNest {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::int64_t elem_bytes = 0;  ///< contiguous bytes that always move together
    std::vector<NestAxis> axes;

    /// The axis along which the source (the destination) advances in the smallest steps.
    std::size_t fastest_source_axis() const;
    std::size_t fastest_destination_axis() const { return axes.size() - 1; }
};

/// `widen` merges contiguous inner axes into the element; only where bytes are copied unchanged.
CanonicalNest canonical_nest(const Nest& nest, std::int64_t elem_bytes, bool widen);

}  // namespace datamover

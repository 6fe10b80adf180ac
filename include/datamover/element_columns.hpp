// SPDX-License-Identifier: BSD-3-Clause
// Memory of the elements of a migration and of their target ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "datamover/element_update.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// The memory of the target ranks of this process's elements. A rank of -1 drops the element. An
/// element may have several targets (a fixed number, or by rows as in CSR) and is then duplicated.
struct TargetList {
    /// Evaluates `count` targets from entry `first`; called for ascending ranges, once per entry.
    using Evaluate =
        std::function<void(std::int64_t first, std::int64_t count, std::int64_t* targets)>;

    std::int64_t elems = 0;
    std::int64_t targets_per_elem = 1;           ///< of an (n, k) table, stored row by row
    std::span<const std::int64_t> row_starts{};  ///< CSR: n + 1 ascending entry numbers, from 0

    /// Integers in memory: one per entry, `stride_bytes` apart (a field of a structure, an array).
    /// A stride of 0 uses one target for all; a negative stride reads backwards.
    const void* data = nullptr;
    ScalarType type = ScalarType::int32;
    std::int64_t stride_bytes = 4;
    /// Used instead of `data` if it is set.
    Evaluate evaluate{};

    /// Return the total number of targets. Local, O(1).
    std::int64_t entries() const {
        return row_starts.empty() ? elems * targets_per_elem : row_starts.back();
    }
};

/// An array with elements of equal size.
struct ElementColumn {
    /// The stride of contiguous elements.
    static constexpr std::int64_t dense = std::numeric_limits<std::int64_t>::min();

    const void* data = nullptr;
    std::int64_t elem_bytes = 0;
    /// From element to element; 0: all are the one at `data`, negative: backwards.
    std::int64_t stride_bytes = dense;
    /// The type that `reverse` combines, if it does; an element may consist of several numbers of
    /// it.
    ScalarType type = ScalarType::opaque;
    /// The caller's name for the elements' type, the same on all processes.
    std::string type_name{};
};

/// Dense memory for elements that arrive. It is pooled if the library made it: other processes of
/// the node then write directly into it. Returned to the pool with the last copy of `owner`.
struct ElementBuffer {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    std::shared_ptr<const void> owner{};
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Target codes, the target of each element in few bytes, and checks of element buffers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "datamover/element_columns.hpp"
#include "datamover/error.hpp"
#include "memory/segment_pool.hpp"

namespace datamover::distribute {

/// Target ranks of all entries, 1, 2 or 4 bytes each; the number of processes stands for "dropped".
struct TargetCodes {
    int width_bytes = 1;
    std::int64_t entries = 0;
    memory::AllocationPtr memory;

    const std::byte* data() const { return memory ? memory->data : nullptr; }
};

/// Calls f(codes) with a pointer of the codes' own type.
template <class F>
auto with_codes(const TargetCodes& codes, F&& f) {
    switch (codes.width_bytes) {
        case 1:
            return f(reinterpret_cast<const std::uint8_t*>(codes.data()));
        case 2:
            return f(reinterpret_cast<const std::uint16_t*>(codes.data()));
        default:
            return f(reinterpret_cast<const std::uint32_t*>(codes.data()));
    }
}

/// What one pass over the targets finds.
struct TargetCount {
    TargetCodes codes;
    std::vector<std::int64_t> counts;  ///< per rank, and at the end those dropped
};

/// Reads, checks, counts and stores all targets in one pass. Throws out_of_range naming `rank` and
/// the first element whose target is neither a rank below `nprocs` nor -1; wrong_type where targets
/// are no integers; invalid_argument where rows do not ascend.
TargetCount read_targets(const TargetList& targets, int rank, int nprocs,
                         memory::SegmentPool& pool);

// Checks of element buffers: valid addresses, and no result that overwrites elements still to be
// read.

/// The error where the first `result_elems` elements of a result share a byte with one of the first
/// `column_elems` elements of a column, or with another result. Columns have strides. O(columns ·
/// results). Local.
std::optional<Error> overlapping(std::span<const ElementColumn> columns, std::int64_t column_elems,
                                 std::span<const ElementBuffer> results, std::int64_t result_elems,
                                 int rank);

/// Throws out_of_range where `elems` elements, `stride_bytes` from one to the next, reach beyond
/// all addresses that there are. Local.
void check_addresses(const void* data, std::int64_t elems, std::int64_t stride_bytes,
                     std::int64_t elem_bytes);

}  // namespace datamover::distribute

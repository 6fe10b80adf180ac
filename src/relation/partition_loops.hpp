// SPDX-License-Identifier: BSD-3-Clause
// Loops that distribute elements by target codes of one byte each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace datamover {

/// Elements of 4 or 8 bytes without gaps between them. Those with a code of at least `targets` are
/// dropped. Any alignment.
struct CodedElems {
    const std::uint8_t* codes = nullptr;
    const std::byte* source = nullptr;
    std::int64_t n = 0;
    std::uint32_t targets = 0;
};

/// The loops compiled for one instruction set level.
struct PartitionLoops {
    /// Appends each element to the place of its target, and advances the places. Returns false, and
    /// does nothing, if one element at a time is faster: too many targets, or no instructions.
    bool (*fan_out_4)(const CodedElems& elems, std::byte** places);
    bool (*fan_out_8)(const CodedElems& elems, std::byte** places);
    /// Writes targets of any alignment as codes, -1 as `nprocs`, of at most 255 processes. Returns
    /// true if one is neither a rank nor -1.
    bool (*encode_int32)(const std::byte* targets, std::int64_t n, std::uint8_t* codes, int nprocs);
    bool (*encode_int64)(const std::byte* targets, std::int64_t n, std::uint8_t* codes, int nprocs);
    /// Adds the number of codes equal to k to counts[k], for all k below `values`. O(n · values).
    void (*count)(const std::uint8_t* codes, std::int64_t n, std::int64_t* counts, int values);
};

}  // namespace datamover

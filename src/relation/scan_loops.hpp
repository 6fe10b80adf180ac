// SPDX-License-Identifier: BSD-3-Clause
// Loops that scan address lists during encoding.
#pragma once

#include <cstdint>

namespace datamover {

/// How often neighbours in two lists of addresses differ by the given steps on both sides, and how
/// often a difference is another than the one before it.
struct DifferenceCounts {
    std::int64_t touching = 0;
    std::int64_t changes = 0;
};

struct AddressRange {
    std::int64_t low = 0;
    std::int64_t high = 0;
};

/// The loops compiled for one instruction set level; n is at least 1.
struct ScanLoops {
    DifferenceCounts (*differences)(const std::int64_t* source, const std::int64_t* destination,
                                    std::int64_t n, std::int64_t source_step,
                                    std::int64_t destination_step);
    AddressRange (*range)(const std::int64_t* a, std::int64_t n);
    /// Whether every address lies `step` behind the one before it.
    bool (*even)(const std::int64_t* a, std::int64_t n, std::int64_t step);
    /// Writes (a[i] - low) >> shift in `width` bytes each; may touch up to 8 bytes behind the last.
    void (*write)(const std::int64_t* a, std::int64_t n, std::int64_t low, int shift,
                  std::int64_t width, unsigned char* to);
};

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Target codes, encoded and counted with AVX-512.
#pragma once

#include <cstdint>

namespace datamover::distribute {

/// Whether the processor has what the two functions below need (AVX-512 with bytes).
bool wide_codes_work();

/// Dense 4-byte targets to 1-byte codes, -1 to `nprocs`; true when one of them is no rank. `n` is a
/// multiple of 64.
bool encode_wide(const std::int32_t* targets, std::int64_t n, std::uint8_t* codes, int nprocs);

/// Adds to counts[rank] how many codes are `rank`, for ranks below `ranks`. `n` is a multiple
/// of 64.
void count_wide(const std::uint8_t* codes, std::int64_t n, std::int64_t* counts, int ranks);

}  // namespace datamover::distribute

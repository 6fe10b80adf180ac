// SPDX-License-Identifier: BSD-3-Clause
// CRC32C by folding, at the speed of memory. Method: V. Gopal et al., Fast CRC Computation for
// Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009. The bytes read so far are a
// polynomial; a short polynomial with the same remainder is kept in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace datamover::stream {

/// As many bytes are taken at a time.
constexpr std::size_t folded_bytes = 128;

/// Whether this processor can.
bool can_fold() noexcept;

/// Sixteen bytes whose CRC from zero is that of `bytes` from `crc`, both without the inversions at
/// begin and end. There are one or more whole pieces of folded_bytes.
struct Folded {
    std::uint64_t first, second;
};
Folded fold(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;

/// The same of bytes that are also copied to `to`, an address that is a multiple of aligned_bytes,
/// through the caches, or around them: others may then read them after a store fence.
constexpr std::size_t aligned_bytes = 32;
Folded fold_and_copy(std::uint32_t crc, std::span<const std::byte> bytes, std::byte* to,
                     bool around_caches) noexcept;
void fence_stores() noexcept;

}  // namespace datamover::stream

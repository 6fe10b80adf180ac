// SPDX-License-Identifier: BSD-3-Clause
// CRC32C: the checksum of stream messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace datamover::stream {

/// The CRC32C of bytes (RFC 3720, section 12.1), in the fastest way that the processor has.
std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

/// Copies bytes to memory that another processor reads next, around this one's caches or through
/// them, and computes their CRC32C meanwhile; whether that is faster than one after the other. `to`
/// does not overlap them.
std::uint32_t copy_with_crc32c(std::span<const std::byte> from, std::byte* to,
                               bool around_caches) noexcept;
bool copies_while_checking() noexcept;

/// As crc32c, by the processor's instruction for it, where it has one.
std::uint32_t crc32c_by_instruction(std::span<const std::byte> bytes) noexcept;

/// The same by tables, as on processors without such an instruction.
std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes) noexcept;

}  // namespace datamover::stream

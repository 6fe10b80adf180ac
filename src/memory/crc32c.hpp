// SPDX-License-Identifier: BSD-3-Clause
// CRC32C: the checksum of stream messages and of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace datamover::memory {

/// The CRC32C of bytes (RFC 3720, section 12.1), by the processor's instruction if it has one.
std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

/// Copies bytes that another processor has written, and computes their CRC32C: they are read from
/// its caches once. `to` does not overlap them.
std::uint32_t copy_with_crc32c(std::span<const std::byte> from, std::byte* to) noexcept;

/// The same as crc32c, as on processors that cannot fold: by their instruction, if they have one.
std::uint32_t crc32c_by_instruction(std::span<const std::byte> bytes) noexcept;
/// The same, as on processors without such an instruction.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes) noexcept;

}  // namespace datamover::memory

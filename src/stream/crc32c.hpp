// SPDX-License-Identifier: BSD-3-Clause
// Which checksum do the messages of streams carry?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace datamover::stream {

/// The CRC32C of bytes (RFC 3720, section 12.1), by the processor's instruction where it has one.
std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

/// The same by tables, as on processors without that instruction.
std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes) noexcept;

}  // namespace datamover::stream

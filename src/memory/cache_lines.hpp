// SPDX-License-Identifier: BSD-3-Clause
// Cache lines: their length, and copies that are stored around the caches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace datamover::memory {

constexpr std::int64_t line_bytes = 64;

/// Bytes rounded up to whole cache lines.
constexpr std::int64_t whole_lines(std::int64_t bytes) {
    return (bytes + line_bytes - 1) / line_bytes * line_bytes;
}

/// Copies around the caches, where the processor can. An ordinary store waits until the other core
/// has given up what it has of the line, one line after the other. Both memories begin a line, and
/// are copied to the end of the last one.
void streamed_copy(std::byte* to, const std::byte* from, std::int64_t bytes) noexcept;

/// After it, stores that others can see come behind all streamed copies.
void end_streaming() noexcept;

}  // namespace datamover::memory

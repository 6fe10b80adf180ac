// SPDX-License-Identifier: BSD-3-Clause
// Cache lines: their length, and copies that are stored around the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace datamover::memory {

constexpr std::int64_t line_bytes = 64;

/// Bytes rounded up to whole units, and to whole cache lines.
constexpr std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}
constexpr std::int64_t whole_lines(std::int64_t bytes) {
    return rounded_up(bytes, line_bytes);
}

/// Copies around the caches, where the processor can. An ordinary store waits until the other core
/// has given up what it has of the line, one line after the other. Both memories begin a line, and
/// are copied to the end of the last one.
inline void streamed_copy(std::byte* to, const std::byte* from, std::int64_t bytes) noexcept {
#ifdef __SSE2__
    constexpr std::int64_t part_bytes = sizeof(__m128i);
    for (std::int64_t line = 0; line < bytes; line += line_bytes)
        for (std::int64_t at = line; at < line + line_bytes; at += part_bytes)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                             _mm_load_si128(reinterpret_cast<const __m128i*>(from + at)));
#else
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
#endif
}

/// After it, stores that others can see come behind all streamed copies.
inline void end_streaming() noexcept {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

}  // namespace datamover::memory

// SPDX-License-Identifier: BSD-3-Clause
// Cache lines: their length, and copies that are stored around the caches.
#include "cache_lines.hpp"

#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace datamover::memory {

#ifdef __SSE2__

void streamed_copy(std::byte* to, const std::byte* from, std::int64_t bytes) noexcept {
    constexpr std::int64_t part_bytes = sizeof(__m128i);
    for (std::int64_t line = 0; line < bytes; line += line_bytes)
        for (std::int64_t at = line; at < line + line_bytes; at += part_bytes)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                             _mm_load_si128(reinterpret_cast<const __m128i*>(from + at)));
}

void end_streaming() noexcept {
    _mm_sfence();
}

#else

void streamed_copy(std::byte* to, const std::byte* from, std::int64_t bytes) noexcept {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void end_streaming() noexcept {}

#endif

}  // namespace datamover::memory

// SPDX-License-Identifier: BSD-3-Clause
// Folding of 128 bytes onto the next 128 bytes, optionally copying them at the same time.
#include "stream/crc32c_folding.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace datamover::stream {

#if defined(__x86_64__)

#define DATAMOVER_FOLDS [[gnu::target("avx2,pclmul,vpclmulqdq")]]

namespace {

/// x to the power of n, modulo Castagnoli's polynomial, with its bits reversed as in a checksum.
constexpr std::int64_t power(int n) {
    std::uint32_t remainder = 0x80000000u;  // one
    for (int i = 0; i < n; ++i)
        remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78u : 0);
    return remainder;
}

/// What moves the first and the second half of 16 bytes on by so many bytes. A product of reversed
/// polynomials lies one bit lower than one would think, and the factors' 32 bits at the low end.
struct Distance {
    constexpr explicit Distance(int bytes)
        : first(power(8 * bytes + 31)), second(power(8 * bytes - 33)) {}
    std::int64_t first, second;
};
constexpr Distance by_128(128), by_64(64), by_32(32), by_16(16);

DATAMOVER_FOLDS inline __m256i wide(Distance by) noexcept {
    return _mm256_set_epi64x(by.second, by.first, by.second, by.first);
}

DATAMOVER_FOLDS inline __m256i folded(__m256i before, __m256i by, __m256i onto) noexcept {
    const __m256i first = _mm256_clmulepi64_epi128(before, by, 0x00);
    const __m256i second = _mm256_clmulepi64_epi128(before, by, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(first, second), onto);
}

DATAMOVER_FOLDS inline __m128i folded(__m128i before, __m128i by, __m128i onto) noexcept {
    const __m128i first = _mm_clmulepi64_si128(before, by, 0x00);
    const __m128i second = _mm_clmulepi64_si128(before, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(first, second), onto);
}

DATAMOVER_FOLDS inline __m256i load(const std::byte* at) noexcept {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

enum class Copy { none, through_caches, around_caches };

/// 32 bytes at `at` + `offset`, which are copied to `to` + `offset` where they are to be.
template <Copy copy>
DATAMOVER_FOLDS inline __m256i taken(const std::byte* at, [[maybe_unused]] std::byte* to,
                                     std::size_t offset) noexcept {
    const __m256i bytes = load(at + offset);
    [[maybe_unused]] auto* const there = reinterpret_cast<__m256i*>(to + offset);
    if constexpr (copy == Copy::around_caches) _mm256_stream_si256(there, bytes);
    if constexpr (copy == Copy::through_caches) _mm256_store_si256(there, bytes);
    return bytes;
}

template <Copy copy>
DATAMOVER_FOLDS inline Folded fold_all(std::uint32_t crc, std::span<const std::byte> bytes,
                                       std::byte* to) noexcept {
    const std::byte* const at = bytes.data();
    const __m256i begin = _mm256_set_epi64x(0, 0, 0, static_cast<std::int64_t>(crc));
    __m256i a = _mm256_xor_si256(taken<copy>(at, to, 0), begin);
    __m256i b = taken<copy>(at, to, 32);
    __m256i c = taken<copy>(at, to, 64);
    __m256i d = taken<copy>(at, to, 96);
    const __m256i on = wide(by_128);
    for (std::size_t n = folded_bytes; n != bytes.size(); n += folded_bytes) {
        a = folded(a, on, taken<copy>(at, to, n));
        b = folded(b, on, taken<copy>(at, to, n + 32));
        c = folded(c, on, taken<copy>(at, to, n + 64));
        d = folded(d, on, taken<copy>(at, to, n + 96));
    }
    a = folded(a, wide(by_64), c);
    b = folded(b, wide(by_64), d);
    a = folded(a, wide(by_32), b);
    const __m128i last =
        folded(_mm256_castsi256_si128(a), _mm_set_epi64x(by_16.second, by_16.first),
               _mm256_extracti128_si256(a, 1));
    return {static_cast<std::uint64_t>(_mm_extract_epi64(last, 0)),
            static_cast<std::uint64_t>(_mm_extract_epi64(last, 1))};
}

}  // namespace

bool can_fold() noexcept {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("pclmul") != 0 &&
           __builtin_cpu_supports("vpclmulqdq") != 0;
}

DATAMOVER_FOLDS Folded fold(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
    return fold_all<Copy::none>(crc, bytes, nullptr);
}

DATAMOVER_FOLDS Folded fold_and_copy(std::uint32_t crc, std::span<const std::byte> bytes,
                                     std::byte* to, bool around_caches) noexcept {
    return around_caches ? fold_all<Copy::around_caches>(crc, bytes, to)
                         : fold_all<Copy::through_caches>(crc, bytes, to);
}

void fence_stores() noexcept {
    _mm_sfence();
}

#else

bool can_fold() noexcept {
    return false;
}

Folded fold(std::uint32_t, std::span<const std::byte>) noexcept {
    return {};
}

Folded fold_and_copy(std::uint32_t, std::span<const std::byte>, std::byte*, bool) noexcept {
    return {};
}

void fence_stores() noexcept {}

#endif

}  // namespace datamover::stream

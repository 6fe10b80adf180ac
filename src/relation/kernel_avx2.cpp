// SPDX-License-Identifier: BSD-3-Clause
// Copy loops for AVX2.
#include "copy_loops.hpp"

#if defined(DATAMOVER_X86_LEVELS)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

// After the includes, so that no code of theirs is made with instructions of this level.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

namespace datamover {
namespace {

template <std::int64_t bytes>
using Width = std::integral_constant<std::int64_t, bytes>;
constexpr std::int64_t inline_piece_bytes = 512;

#include "copy_loops_body.hpp"

using Vector = __m256i;
constexpr int vector_lanes = 2;

[[gnu::always_inline]] inline Vector load_vector(const char* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
[[gnu::always_inline]] inline void store_vector(char* p, Vector v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}
[[gnu::always_inline]] inline void stream_vector(char* p, Vector v) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p), v);
}
template <std::int64_t bytes>
[[gnu::always_inline]] inline Vector interleave_low(Vector a, Vector b) {
    if constexpr (bytes == 1) return _mm256_unpacklo_epi8(a, b);
    if constexpr (bytes == 2) return _mm256_unpacklo_epi16(a, b);
    if constexpr (bytes == 4) return _mm256_unpacklo_epi32(a, b);
    return _mm256_unpacklo_epi64(a, b);
}
template <std::int64_t bytes>
[[gnu::always_inline]] inline Vector interleave_high(Vector a, Vector b) {
    if constexpr (bytes == 1) return _mm256_unpackhi_epi8(a, b);
    if constexpr (bytes == 2) return _mm256_unpackhi_epi16(a, b);
    if constexpr (bytes == 4) return _mm256_unpackhi_epi32(a, b);
    return _mm256_unpackhi_epi64(a, b);
}
[[gnu::always_inline]] inline void exchange_lanes(Vector (&v)[2]) {
    const Vector low = _mm256_permute2x128_si256(v[0], v[1], 0x20);
    v[1] = _mm256_permute2x128_si256(v[0], v[1], 0x31);
    v[0] = low;
}
inline void store_fence() {
    _mm_sfence();
}

#include "tile_body.hpp"
#include "transpose_body.hpp"

constexpr CopyLoops loops = with_transposes(plain_loops("avx2"));

}  // namespace

const CopyLoops& avx2_copy_loops() {
    return loops;
}

}  // namespace datamover

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif

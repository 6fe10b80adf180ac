// SPDX-License-Identifier: BSD-3-Clause
// Which copy loops run on processors with AVX-512?
#include "copy_loops.hpp"

#if defined(DATAMOVER_X86_LEVELS)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

// After the includes, so that no code of theirs is made with instructions of this level.
#pragma GCC diagnostic ignored "-Wuninitialized"  // within the compiler's own header
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,bmi2"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,bmi2,prefer-vector-width=512")
#endif
#define DATAMOVER_MASKED_MOVES 1

namespace datamover {
namespace {

template <std::int64_t bytes>
using Width = std::integral_constant<std::int64_t, bytes>;
constexpr std::int64_t inline_piece_bytes = 1024;

#include "copy_loops_body.hpp"

using Vector = __m512i;
constexpr int vector_lanes = 4;

[[gnu::always_inline]] inline Vector load_vector(const char* p) {
    return _mm512_loadu_si512(p);
}
[[gnu::always_inline]] inline void store_vector(char* p, Vector v) {
    _mm512_storeu_si512(p, v);
}
[[gnu::always_inline]] inline void stream_vector(char* p, Vector v) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(p), v);
}
template <std::int64_t bytes>
[[gnu::always_inline]] inline Vector interleave_low(Vector a, Vector b) {
    if constexpr (bytes == 1) return _mm512_unpacklo_epi8(a, b);
    if constexpr (bytes == 2) return _mm512_unpacklo_epi16(a, b);
    if constexpr (bytes == 4) return _mm512_unpacklo_epi32(a, b);
    return _mm512_unpacklo_epi64(a, b);
}
template <std::int64_t bytes>
[[gnu::always_inline]] inline Vector interleave_high(Vector a, Vector b) {
    if constexpr (bytes == 1) return _mm512_unpackhi_epi8(a, b);
    if constexpr (bytes == 2) return _mm512_unpackhi_epi16(a, b);
    if constexpr (bytes == 4) return _mm512_unpackhi_epi32(a, b);
    return _mm512_unpackhi_epi64(a, b);
}
/// Transposes a square of four times four lanes.
[[gnu::always_inline]] inline void exchange_lanes(Vector (&v)[4]) {
    const Vector even_low = _mm512_shuffle_i64x2(v[0], v[1], 0x88);
    const Vector odd_low = _mm512_shuffle_i64x2(v[0], v[1], 0xdd);
    const Vector even_high = _mm512_shuffle_i64x2(v[2], v[3], 0x88);
    const Vector odd_high = _mm512_shuffle_i64x2(v[2], v[3], 0xdd);
    v[0] = _mm512_shuffle_i64x2(even_low, even_high, 0x88);
    v[1] = _mm512_shuffle_i64x2(odd_low, odd_high, 0x88);
    v[2] = _mm512_shuffle_i64x2(even_low, even_high, 0xdd);
    v[3] = _mm512_shuffle_i64x2(odd_low, odd_high, 0xdd);
}
inline void store_fence() {
    _mm_sfence();
}

#include "tile_body.hpp"
#include "transpose_body.hpp"

constexpr CopyLoops loops = with_transposes(plain_loops("avx512"));

}  // namespace

const CopyLoops& avx512_copy_loops() {
    return loops;
}

}  // namespace datamover

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif

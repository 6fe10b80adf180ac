// SPDX-License-Identifier: BSD-3-Clause
// Copy loops for AVX-512.
#include "copy_loops.hpp"

#if defined(DATAMOVER_X86_LEVELS)

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

// After the includes, so that no code of theirs is made with instructions of this level.
#pragma GCC diagnostic ignored "-Wuninitialized"  // within the compiler's own header
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,bmi2,prefer-vector-width=512")
#define DATAMOVER_MASKED_MOVES 1
#define DATAMOVER_GATHERS 1
#define DATAMOVER_PACKS 1

namespace datamover {
namespace {

constexpr std::int64_t inline_piece_bytes = 1024;

/// Eight offsets as 32-bit numbers. Reads up to four bytes behind the eighth.
template <std::int64_t width>
[[gnu::always_inline]] inline __m256i load_offsets(const unsigned char* at) {
    if constexpr (width == 1)
        return _mm256_cvtepu8_epi32(_mm_loadu_si64(at));
    else if constexpr (width == 2)
        return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    else if constexpr (width == 4)
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    const __m128i spread = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    const auto four = [&](const unsigned char* p) {
        return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), spread);
    };
    return _mm256_set_m128i(four(at + 12), four(at));
}

template <std::int64_t bytes, std::int64_t width>
constexpr bool has_gather = (bytes == 4 || bytes == 8) && width <= 3;

/// Elements of `bytes` bytes from eight offsets to a packed row.
template <std::int64_t bytes, std::int64_t width>
[[gnu::always_inline]] inline void gather_eight(const unsigned char* offsets, const char* source,
                                                char* destination) {
    const __m256i at = load_offsets<width>(offsets);
    if constexpr (bytes == 8)
        _mm512_storeu_si512(destination, _mm512_i32gather_epi64(at, source, 8));
    else
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination),
                            _mm256_i32gather_epi32(reinterpret_cast<const int*>(source), at, 4));
}

#include "copy_loops_body.hpp"

using Vector = __m512i;
constexpr int vector_lanes = 4;
constexpr bool stores_stream = true;

[[gnu::always_inline]] inline void stream_vector(char* p, Vector v) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(p), v);
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

/// As many as a mask has bits of a general register: GCC 12 spills shorter masks in two bytes and
/// reads four.
constexpr int block_elems = 32;
/// The bits of the codes of a block that are `value`.
[[gnu::always_inline]] inline std::uint32_t matching(const std::uint8_t* codes,
                                                     std::uint32_t value) {
    return _mm256_cmpeq_epi8_mask(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)),
                                  _mm256_set1_epi8(static_cast<char>(value)));
}
/// The elements of a set at the front.
template <std::int64_t bytes>
[[gnu::always_inline]] inline Vector packed(Vector v, unsigned set) {
    if constexpr (bytes == 4)
        return _mm512_maskz_compress_epi32(static_cast<__mmask16>(set), v);
    else
        return _mm512_maskz_compress_epi64(static_cast<__mmask8>(set), v);
}
/// Beyond this, one element at a time takes less time (measured).
template <std::int64_t bytes>
constexpr std::uint32_t most_packed = 8;

#include "tile_body.hpp"

#include "partition_loops_body.hpp"
#include "transpose_body.hpp"

constexpr CopyLoops loops = with_partition(with_transposes(plain_loops("avx512")));

}  // namespace

const CopyLoops& avx512_copy_loops() {
    return loops;
}

}  // namespace datamover

#pragma GCC pop_options

#endif

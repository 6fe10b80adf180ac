// SPDX-License-Identifier: BSD-3-Clause
// Copy loops for AVX2.
#include "copy_loops.hpp"

#if defined(DATAMOVER_X86_LEVELS)

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

// After the includes, so that no code of theirs is made with instructions of this level.
#pragma GCC push_options
#pragma GCC target("avx2")
#define DATAMOVER_PACKS 1

namespace datamover {
namespace {

constexpr std::int64_t inline_piece_bytes = 512;

#include "copy_loops_body.hpp"

using Vector = __m256i;
constexpr int vector_lanes = 2;
constexpr bool stores_stream = true;

[[gnu::always_inline]] inline void stream_vector(char* p, Vector v) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p), v);
}
[[gnu::always_inline]] inline void exchange_lanes(Vector (&v)[2]) {
    const Vector low = _mm256_permute2x128_si256(v[0], v[1], 0x20);
    v[1] = _mm256_permute2x128_si256(v[0], v[1], 0x31);
    v[0] = low;
}

constexpr int block_elems = 8;
/// The bits of the codes of a block that are `value`.
[[gnu::always_inline]] inline std::uint32_t matching(const std::uint8_t* codes,
                                                     std::uint32_t value) {
    const __m128i equal =
        _mm_cmpeq_epi8(_mm_loadu_si64(codes), _mm_set1_epi8(static_cast<char>(value)));
    return static_cast<std::uint32_t>(_mm_movemask_epi8(equal)) & 0xff;
}
/// The elements of a set at the front.
template <std::int64_t bytes>
[[gnu::always_inline]] inline Vector packed(Vector v, unsigned set) {
    const auto& order = packing_orders<32 / bytes, bytes / 4>[set];  // of 4-byte parts
    return _mm256_permutevar8x32_epi32(v, _mm256_cvtepu8_epi32(_mm_loadu_si64(order.data())));
}
/// Beyond this, one element at a time takes less time (measured).
template <std::int64_t bytes>
constexpr std::uint32_t most_packed = bytes == 4 ? 7 : 4;

#include "tile_body.hpp"

#include "partition_loops_body.hpp"
#include "transpose_body.hpp"

constexpr CopyLoops loops = with_partition(with_transposes(plain_loops("avx2")));

}  // namespace

const CopyLoops& avx2_copy_loops() {
    return loops;
}

}  // namespace datamover

#pragma GCC pop_options

#endif

// SPDX-License-Identifier: BSD-3-Clause
// Target codes, encoded and counted with AVX-512.
#include "target_codes_wide.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace datamover::distribute {

#if defined(__x86_64__)
#define DATAMOVER_WIDE __attribute__((target("avx512f,avx512vl,avx512bw,popcnt")))

bool wide_codes_work() {
    static const bool works =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("popcnt");
    return works;
}

DATAMOVER_WIDE bool encode_wide(const std::int32_t* targets, std::int64_t n, std::uint8_t* codes,
                                int nprocs) {
    const __m512i dropped = _mm512_set1_epi32(nprocs), one = _mm512_set1_epi32(1);
    const __m512i minus_one = _mm512_set1_epi32(-1);
    unsigned bad = 0;
    for (std::int64_t i = 0; i < n; i += 16) {
        const __m512i target = _mm512_loadu_si512(targets + i);
        bad |= _mm512_cmpgt_epu32_mask(_mm512_add_epi32(target, one), dropped);
        const __mmask16 drop = _mm512_cmpeq_epi32_mask(target, minus_one);
        const __m512i code = _mm512_mask_mov_epi32(target, drop, dropped);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i),
                         _mm512_maskz_cvtepi32_epi8(0xffff, code));
    }
    return bad != 0;
}

DATAMOVER_WIDE void count_wide(const std::uint8_t* codes, std::int64_t n, std::int64_t* counts,
                               int ranks) {
    for (int r = 0; r < ranks; ++r) {
        const __m512i rank = _mm512_set1_epi8(static_cast<char>(r));
        std::int64_t found = 0;
        for (std::int64_t i = 0; i < n; i += 64)
            found += static_cast<std::int64_t>(
                _mm_popcnt_u64(_mm512_cmpeq_epi8_mask(_mm512_loadu_si512(codes + i), rank)));
        counts[r] += found;
    }
}
#undef DATAMOVER_WIDE
#else
bool wide_codes_work() {
    return false;
}
bool encode_wide(const std::int32_t*, std::int64_t, std::uint8_t*, int) {
    return false;
}
void count_wide(const std::uint8_t*, std::int64_t, std::int64_t*, int) {}
#endif

}  // namespace datamover::distribute

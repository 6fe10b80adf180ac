// SPDX-License-Identifier: BSD-3-Clause
// Partitioning small elements over few targets with AVX-512.
#include "partition_compress.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "target_codes_wide.hpp"

namespace datamover::distribute {

#if defined(__x86_64__)
namespace {

/// Beyond this a vector is scanned too often.
constexpr std::uint32_t most_targets = 8;

__attribute__((target("avx512f,avx512vl,avx512bw,popcnt"))) void fan_out_4_bytes(
    const std::uint8_t* codes, const std::byte* source, std::int64_t begin, std::int64_t end,
    std::uint32_t targets, std::byte** places) {
    for (std::int64_t i = begin; i + 16 <= end; i += 16) {
        const __m128i code = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
        const __m512i elems = _mm512_loadu_si512(source + i * 4);
        for (std::uint32_t t = 0; t < targets; ++t) {
            const __mmask16 mine = _mm_cmpeq_epi8_mask(code, _mm_set1_epi8(static_cast<char>(t)));
            const auto n = static_cast<unsigned>(_mm_popcnt_u32(mine));
            const auto lanes = static_cast<__mmask16>((1u << n) - 1);
            _mm512_mask_storeu_epi32(places[t], lanes, _mm512_maskz_compress_epi32(mine, elems));
            places[t] += 4 * n;
        }
    }
}

__attribute__((target("avx512f,avx512vl,avx512bw,popcnt"))) void fan_out_8_bytes(
    const std::uint8_t* codes, const std::byte* source, std::int64_t begin, std::int64_t end,
    std::uint32_t targets, std::byte** places) {
    for (std::int64_t i = begin; i + 8 <= end; i += 8) {
        const __m128i code = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i));
        const __m512i elems = _mm512_loadu_si512(source + i * 8);
        for (std::uint32_t t = 0; t < targets; ++t) {
            const auto mine = static_cast<__mmask8>(
                _mm_cmpeq_epi8_mask(code, _mm_set1_epi8(static_cast<char>(t))));
            const auto n = static_cast<unsigned>(_mm_popcnt_u32(mine));
            const auto lanes = static_cast<__mmask8>((1u << n) - 1);
            _mm512_mask_storeu_epi64(places[t], lanes, _mm512_maskz_compress_epi64(mine, elems));
            places[t] += 8 * n;
        }
    }
}

void fan_out_rest(const ElementRange& range, const std::uint8_t* codes, const ElementColumn& column,
                  std::int64_t begin, std::byte** places) {
    const auto* source = static_cast<const std::byte*>(column.data);
    for (std::int64_t i = begin; i < range.end_elem; ++i) {
        if (codes[i] == range.drop_code) continue;
        std::memcpy(places[codes[i]], source + i * column.elem_bytes,
                    static_cast<std::size_t>(column.elem_bytes));
        places[codes[i]] += column.elem_bytes;
    }
}

}  // namespace

bool fan_out_compressed(const ElementRange& range, const ElementColumn& column,
                        std::byte** places) {
    const bool suits = range.codes->width_bytes == 1 && range.drop_code <= most_targets &&
                       (column.elem_bytes == 4 || column.elem_bytes == 8) &&
                       column.stride_bytes == column.elem_bytes && wide_codes_work();
    if (!suits) return false;
    const auto* codes = reinterpret_cast<const std::uint8_t*>(range.codes->data());
    const auto* source = static_cast<const std::byte*>(column.data);
    const std::int64_t lanes = 64 / column.elem_bytes;
    const std::int64_t whole = (range.end_elem - range.begin_elem) / lanes * lanes;
    const auto loop = column.elem_bytes == 4 ? fan_out_4_bytes : fan_out_8_bytes;
    loop(codes, source, range.begin_elem, range.begin_elem + whole, range.drop_code, places);
    fan_out_rest(range, codes, column, range.begin_elem + whole, places);
    return true;
}
#else
bool fan_out_compressed(const ElementRange&, const ElementColumn&, std::byte**) {
    return false;
}
#endif

}  // namespace datamover::distribute

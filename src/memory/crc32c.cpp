// SPDX-License-Identifier: BSD-3-Clause
// CRC32C, computed by folding, by the processor's instruction or by a table. The instruction takes
// 8 bytes at a time and has a latency of three cycles, so three parts of the memory are processed
// in turn and their results are combined. Folding is as fast as memory is read (V. Gopal et al.,
// Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009): bytes are
// a polynomial, and are replaced by a short one with the same remainder.
#include "memory/crc32c.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define DATAMOVER_CRC_INSTRUCTION [[gnu::target("sse4.2")]]
#elif defined(__AARCH64EL__) && defined(__linux__) && \
    (defined(__ARM_FEATURE_CRC32) || (defined(__GNUC__) && !defined(__clang__)))
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define DATAMOVER_CRC_INSTRUCTION [[gnu::target("+crc")]]
#endif

namespace datamover::memory {
namespace {

/// Castagnoli's polynomial, its bits reversed.
constexpr std::uint32_t polynomial = 0x82f63b78u;

using Table = std::array<std::uint32_t, 256>;

constexpr Table byte_table() {
    Table table{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
        table[byte] = crc;
    }
    return table;
}

constexpr Table crc_table = byte_table();

constexpr std::uint32_t with_byte(std::uint32_t crc, std::byte byte) noexcept {
    return (crc >> 8) ^ crc_table[(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
}

#if defined(DATAMOVER_CRC_INSTRUCTION)

#if defined(__x86_64__)
bool has_instruction() noexcept {
    return __builtin_cpu_supports("sse4.2") != 0;
}
#define DATAMOVER_CRC_OF_WORD(crc, word) _mm_crc32_u64(crc, word)
#else
bool has_instruction() noexcept {
    return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#define DATAMOVER_CRC_OF_WORD(crc, word) __crc32cd(static_cast<std::uint32_t>(crc), word)
#endif

constexpr std::size_t word_bytes = 8;

DATAMOVER_CRC_INSTRUCTION inline std::uint64_t with_word(std::uint64_t crc,
                                                         const std::byte* from) noexcept {
    std::uint64_t word;
    std::memcpy(&word, from, word_bytes);
    return DATAMOVER_CRC_OF_WORD(crc, word);
}

/// The size of each of three parts that are processed in turn.
constexpr std::size_t part_bytes = 1024;

/// The effect of part_bytes zeros after a checksum: the exclusive or over its four bytes.
constexpr std::array<Table, 4> zeros_tables() {
    std::array<std::uint32_t, 32> of_bit{};
    for (std::size_t bit = 0; bit < 32; ++bit) {
        std::uint32_t crc = std::uint32_t{1} << bit;
        for (std::size_t n = 0; n < part_bytes; ++n) crc = with_byte(crc, std::byte{0});
        of_bit[bit] = crc;
    }
    std::array<Table, 4> all{};
    for (std::size_t place = 0; place < 4; ++place)
        for (std::size_t byte = 0; byte < 256; ++byte)
            for (std::size_t bit = 0; bit < 8; ++bit)
                if ((byte >> bit & 1) != 0) all[place][byte] ^= of_bit[8 * place + bit];
    return all;
}

constexpr std::array<Table, 4> after_zeros = zeros_tables();

std::uint32_t with_zeros(std::uint64_t crc) noexcept {
    return after_zeros[0][crc & 0xff] ^ after_zeros[1][crc >> 8 & 0xff] ^
           after_zeros[2][crc >> 16 & 0xff] ^ after_zeros[3][crc >> 24 & 0xff];
}

/// `crc` continued by more bytes.
DATAMOVER_CRC_INSTRUCTION std::uint32_t by_instruction(std::uint64_t crc,
                                                       std::span<const std::byte> bytes) noexcept {
    const std::byte* at = bytes.data();
    const std::byte* const end = at + bytes.size();
    for (; static_cast<std::size_t>(end - at) >= 3 * part_bytes; at += 3 * part_bytes) {
        std::uint64_t second = 0, third = 0;
        for (std::size_t n = 0; n < part_bytes; n += word_bytes) {
            crc = with_word(crc, at + n);
            second = with_word(second, at + part_bytes + n);
            third = with_word(third, at + 2 * part_bytes + n);
        }
        crc = with_zeros(second ^ with_zeros(crc)) ^ third;
    }
    for (; static_cast<std::size_t>(end - at) >= word_bytes; at += word_bytes)
        crc = with_word(crc, at);
    auto last = static_cast<std::uint32_t>(crc);
    for (; at != end; ++at) last = with_byte(last, *at);
    return last;
}

#endif

#if defined(__x86_64__)

#define DATAMOVER_FOLDS [[gnu::target("avx2,pclmul,sse4.2,vpclmulqdq")]]

/// Number of bytes that are folded onto the next ones at a time, and the length from which folding
/// is faster than the instruction.
constexpr std::size_t folded_bytes = 128, least_folded_bytes = 4 * folded_bytes;

bool can_fold() noexcept {
    return has_instruction() && __builtin_cpu_supports("avx2") != 0 &&
           __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
}

/// x to the power of n, modulo Castagnoli's polynomial, its bits reversed as in a checksum.
constexpr std::int64_t power(int n) {
    std::uint32_t remainder = 0x80000000u;  // one
    for (int i = 0; i < n; ++i)
        remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? polynomial : 0);
    return remainder;
}

/// Factors that shift the first and the second half of 16 bytes by a number of bytes. The product
/// of two reversed polynomials is one bit lower than that of the polynomials.
template <int bytes>
DATAMOVER_FOLDS inline __m128i factors() noexcept {
    return _mm_set_epi64x(power(8 * bytes - 33), power(8 * bytes + 31));
}

DATAMOVER_FOLDS inline __m128i folded(__m128i before, __m128i by, __m128i onto) noexcept {
    const __m128i first = _mm_clmulepi64_si128(before, by, 0x00);
    const __m128i second = _mm_clmulepi64_si128(before, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(first, second), onto);
}

DATAMOVER_FOLDS inline __m256i folded(__m256i before, __m128i by, __m256i onto) noexcept {
    const __m256i of_both = _mm256_broadcastsi128_si256(by);
    const __m256i first = _mm256_clmulepi64_epi128(before, of_both, 0x00);
    const __m256i second = _mm256_clmulepi64_epi128(before, of_both, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(first, second), onto);
}

template <bool copies>
DATAMOVER_FOLDS inline __m256i taken(const std::byte* from, [[maybe_unused]] std::byte* to,
                                     std::size_t offset) noexcept {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + offset));
    if constexpr (copies) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + offset), bytes);
    return bytes;
}

/// `crc` continued by whole pieces of folded_bytes, at least one, which are also copied to `to` if
/// `copies`.
template <bool copies>
DATAMOVER_FOLDS std::uint32_t by_folding(std::uint32_t crc, std::span<const std::byte> bytes,
                                         std::byte* to) noexcept {
    constexpr std::size_t lanes = 4, lane_bytes = folded_bytes / lanes;
    __m256i sum[lanes];
    const std::byte* at = bytes.data();
    for (std::size_t k = 0; k < lanes; ++k) sum[k] = taken<copies>(at, to, k * lane_bytes);
    sum[0] = _mm256_xor_si256(sum[0], _mm256_set_epi64x(0, 0, 0, crc));
    for (std::size_t n = folded_bytes; n != bytes.size(); n += folded_bytes)
        for (std::size_t k = 0; k < lanes; ++k)
            sum[k] =
                folded(sum[k], factors<folded_bytes>(), taken<copies>(at, to, n + k * lane_bytes));
    const __m256i even = folded(sum[0], factors<2 * lane_bytes>(), sum[2]);
    const __m256i odd = folded(sum[1], factors<2 * lane_bytes>(), sum[3]);
    const __m256i both = folded(even, factors<lane_bytes>(), odd);
    const __m128i last = folded(_mm256_castsi256_si128(both), factors<lane_bytes / 2>(),
                                _mm256_extracti128_si256(both, 1));
    std::uint64_t halves[2];
    std::memcpy(halves, &last, sizeof halves);
    return static_cast<std::uint32_t>(_mm_crc32_u64(_mm_crc32_u64(0, halves[0]), halves[1]));
}

#endif

std::uint32_t by_table(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
    for (const std::byte byte : bytes) crc = with_byte(crc, byte);
    return crc;
}

/// Continues `crc` by the bytes that can be folded, if folding is faster, and removes them from
/// `bytes`. Unless `to` is null, copies them there, and advances it.
std::uint32_t fold_most([[maybe_unused]] std::uint32_t crc, std::span<const std::byte>& bytes,
                        std::byte*& to) noexcept {
#if defined(__x86_64__)
    static const bool folds = can_fold();
    if (!folds || bytes.size() < least_folded_bytes) return crc;
    const std::size_t head = bytes.size() / folded_bytes * folded_bytes;
    if (to == nullptr) {
        crc = by_folding<false>(crc, bytes.first(head), to);
    } else {
        crc = by_folding<true>(crc, bytes.first(head), to);
        to += head;
    }
    bytes = bytes.subspan(head);
#endif
    return crc;
}

std::uint32_t without_folding(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
#if defined(DATAMOVER_CRC_INSTRUCTION)
    static const bool is_there = has_instruction();
    if (is_there) return by_instruction(crc, bytes);
#endif
    return by_table(crc, bytes);
}

std::uint32_t crc_of_more(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
    std::byte* nowhere = nullptr;
    crc = fold_most(crc, bytes, nowhere);
    return without_folding(crc, bytes);
}

constexpr std::uint32_t all_ones = 0xffffffffu;

}  // namespace

std::uint32_t crc32c_by_instruction(std::span<const std::byte> bytes) noexcept {
    return ~without_folding(all_ones, bytes);
}

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes) noexcept {
    return ~by_table(all_ones, bytes);
}

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
    return ~crc_of_more(all_ones, bytes);
}

std::uint32_t copy_with_crc32c(std::span<const std::byte> from, std::byte* to) noexcept {
    constexpr std::size_t block_bytes = 12 * 1024;  // stays in the first cache
    std::uint32_t crc = fold_most(all_ones, from, to);
    while (!from.empty()) {
        const std::size_t count = std::min(from.size(), block_bytes);
        std::memcpy(to, from.data(), count);
        crc = crc_of_more(crc, {to, count});
        from = from.subspan(count);
        to += count;
    }
    return ~crc;
}

}  // namespace datamover::memory

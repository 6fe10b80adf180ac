// SPDX-License-Identifier: BSD-3-Clause
// CRC32C, computed by folding, by the processor's instruction, or by tables. Long memory is folded
// if the processor supports it. The instruction takes 8 bytes at a time but has a long latency, so
// three parts of the memory are processed in turn and their results are combined. Each part is long
// enough for the hardware prefetcher.
#include "stream/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "stream/crc32c_folding.hpp"

#if defined(__x86_64__)
#include <nmmintrin.h>
#define DATAMOVER_CRC_INSTRUCTION [[gnu::target("sse4.2")]]
#elif defined(__aarch64__) && defined(__linux__) && \
    (defined(__ARM_FEATURE_CRC32) || (defined(__GNUC__) && !defined(__clang__)))
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define DATAMOVER_CRC_INSTRUCTION [[gnu::target("+crc")]]
#endif

namespace datamover::stream {
namespace {

/// Castagnoli's polynomial, its bits reversed.
constexpr std::uint32_t polynomial = 0x82f63b78u;
constexpr std::size_t word_bytes = 8;
/// A checksum begins with it.
constexpr std::uint32_t all_ones = 0xffffffffu;

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

/// tables[n][byte]: a byte, followed by n bytes of zero.
constexpr std::array<Table, word_bytes> word_tables() {
    std::array<Table, word_bytes> tables{byte_table()};
    for (std::size_t n = 1; n < word_bytes; ++n)
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t crc = tables[n - 1][byte];
            tables[n][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
        }
    return tables;
}

constexpr std::array<Table, word_bytes> tables = word_tables();

std::uint64_t load_word(const std::byte* from) noexcept {
    std::uint64_t word;
    std::memcpy(&word, from, word_bytes);
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    return word;
}

std::uint32_t add_byte(std::uint32_t crc, std::byte byte) noexcept {
    return (crc >> 8) ^ tables[0][(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
}

#if defined(DATAMOVER_CRC_INSTRUCTION)

#if defined(__x86_64__)

bool has_instruction() noexcept {
    return __builtin_cpu_supports("sse4.2") != 0;
}
DATAMOVER_CRC_INSTRUCTION inline std::uint64_t with_word(std::uint64_t crc,
                                                         std::uint64_t word) noexcept {
    return _mm_crc32_u64(crc, word);
}
DATAMOVER_CRC_INSTRUCTION inline std::uint32_t with_byte(std::uint32_t crc,
                                                         std::byte byte) noexcept {
    return _mm_crc32_u8(crc, static_cast<unsigned char>(byte));
}

#else

bool has_instruction() noexcept {
    return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
DATAMOVER_CRC_INSTRUCTION inline std::uint64_t with_word(std::uint64_t crc,
                                                         std::uint64_t word) noexcept {
    return __crc32cd(static_cast<std::uint32_t>(crc), word);
}
DATAMOVER_CRC_INSTRUCTION inline std::uint32_t with_byte(std::uint32_t crc,
                                                         std::byte byte) noexcept {
    return __crc32cb(crc, static_cast<unsigned char>(byte));
}

#endif

/// Of each of three parts that are taken in turn.
constexpr std::size_t part_bytes = 1024;

/// What becomes of a checksum by part_bytes zeros after it: the exclusive or over its four bytes.
constexpr std::array<Table, 4> zeros_tables() {
    std::array<std::uint32_t, 32> of_bit{};
    for (std::size_t bit = 0; bit < 32; ++bit) {
        std::uint32_t crc = std::uint32_t{1} << bit;
        for (std::size_t n = 0; n < part_bytes; ++n) crc = (crc >> 8) ^ tables[0][crc & 0xff];
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

std::uint32_t with_zeros(std::uint32_t crc) noexcept {
    return after_zeros[0][crc & 0xff] ^ after_zeros[1][crc >> 8 & 0xff] ^
           after_zeros[2][crc >> 16 & 0xff] ^ after_zeros[3][crc >> 24];
}

/// The bytes after others whose checksum, not inverted, is `crc`.
DATAMOVER_CRC_INSTRUCTION std::uint32_t go_on(std::uint64_t crc,
                                              std::span<const std::byte> bytes) noexcept {
    const std::byte* at = bytes.data();
    const std::byte* const end = at + bytes.size();
    while (static_cast<std::size_t>(end - at) >= 3 * part_bytes) {
        std::uint64_t second = 0, third = 0;
        for (std::size_t n = 0; n < part_bytes; n += word_bytes) {
            crc = with_word(crc, load_word(at + n));
            second = with_word(second, load_word(at + part_bytes + n));
            third = with_word(third, load_word(at + 2 * part_bytes + n));
        }
        second ^= with_zeros(static_cast<std::uint32_t>(crc));
        crc = with_zeros(static_cast<std::uint32_t>(second)) ^ third;
        at += 3 * part_bytes;
    }
    for (; static_cast<std::size_t>(end - at) >= word_bytes; at += word_bytes)
        crc = with_word(crc, load_word(at));
    auto last = static_cast<std::uint32_t>(crc);
    for (; at != end; ++at) last = with_byte(last, *at);
    return last;
}

/// With less, to join the parts takes longer than folding saves.
constexpr std::size_t least_folded_bytes = 4 * folded_bytes;

/// The bytes after those that were folded.
DATAMOVER_CRC_INSTRUCTION std::uint32_t go_on(const Folded& folded,
                                              std::span<const std::byte> bytes) noexcept {
    return go_on(with_word(with_word(0, folded.first), folded.second), bytes);
}

DATAMOVER_CRC_INSTRUCTION std::uint32_t by_folding(std::span<const std::byte> bytes) noexcept {
    const std::size_t head = bytes.size() / folded_bytes * folded_bytes;
    if (head < least_folded_bytes) return ~go_on(all_ones, bytes);
    return ~go_on(fold(all_ones, bytes.first(head)), bytes.subspan(head));
}

DATAMOVER_CRC_INSTRUCTION std::uint32_t copied_by_folding(std::span<const std::byte> from,
                                                          std::byte* to,
                                                          bool around_caches) noexcept {
    const std::size_t before = -reinterpret_cast<std::uintptr_t>(to) % aligned_bytes;
    const std::size_t middle =
        from.size() > before ? (from.size() - before) / folded_bytes * folded_bytes : 0;
    if (middle < least_folded_bytes) {
        std::memcpy(to, from.data(), from.size());
        return ~go_on(all_ones, from);
    }
    std::memcpy(to, from.data(), before);
    const std::uint32_t begun = go_on(all_ones, from.first(before));
    const Folded folded =
        fold_and_copy(begun, from.subspan(before, middle), to + before, around_caches);
    if (around_caches) fence_stores();
    const std::span<const std::byte> after = from.subspan(before + middle);
    std::memcpy(to + before + middle, after.data(), after.size());
    return ~go_on(folded, after);
}

bool folds() noexcept {
    static const bool can = has_instruction() && can_fold();
    return can;
}

#endif

}  // namespace

std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes) noexcept {
    const std::byte* at = bytes.data();
    const std::byte* const end = at + bytes.size();
    std::uint32_t crc = all_ones;
    for (; static_cast<std::size_t>(end - at) >= word_bytes; at += word_bytes) {
        const std::uint64_t word = load_word(at) ^ crc;
        crc = 0;
        for (std::size_t n = 0; n < word_bytes; ++n)
            crc ^= tables[word_bytes - 1 - n][word >> 8 * n & 0xff];
    }
    for (; at != end; ++at) crc = add_byte(crc, *at);
    return ~crc;
}

std::uint32_t crc32c_by_instruction(std::span<const std::byte> bytes) noexcept {
#if defined(DATAMOVER_CRC_INSTRUCTION)
    static const bool is_there = has_instruction();
    if (is_there) return ~go_on(all_ones, bytes);
#endif
    return crc32c_by_tables(bytes);
}

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
#if defined(DATAMOVER_CRC_INSTRUCTION)
    if (folds()) return by_folding(bytes);
#endif
    return crc32c_by_instruction(bytes);
}

std::uint32_t copy_with_crc32c(std::span<const std::byte> from, std::byte* to,
                               [[maybe_unused]] bool around_caches) noexcept {
#if defined(DATAMOVER_CRC_INSTRUCTION)
    if (folds()) return copied_by_folding(from, to, around_caches);
#endif
    std::memcpy(to, from.data(), from.size());
    return crc32c(from);
}

bool copies_while_checking() noexcept {
#if defined(DATAMOVER_CRC_INSTRUCTION)
    return folds();
#else
    return false;
#endif
}

}  // namespace datamover::stream

// SPDX-License-Identifier: BSD-3-Clause
// Writing and reading of data connection headers. No input is trusted.
#include "stream/wire/message_words.hpp"

#include <algorithm>

#include "geometry/make_error.hpp"
#include "stream/wire/crc32c.hpp"

namespace datamover::stream {
namespace {

constexpr std::uint32_t grant_magic = 0x444d4737;   // "DMG7"
constexpr std::uint32_t chunk_magic = 0x444d4337;   // "DMC7"
constexpr std::uint32_t shared_magic = 0x444d5337;  // "DMS7"

constexpr std::size_t checksum_bytes = 4;

template <class Integer>
Integer take(std::span<const std::byte>& words) {
    Integer value = 0;
    for (std::size_t n = 0; n < sizeof(Integer); ++n)
        value = static_cast<Integer>(value << 8 | static_cast<Integer>(words[n]));
    words = words.subspan(sizeof(Integer));
    return value;
}

template <class Integer>
void put(std::byte*& at, Integer value) {
    for (std::size_t n = sizeof(Integer); n-- > 0;) *at++ = static_cast<std::byte>(value >> 8 * n);
}

void require_undamaged(std::span<const std::byte> words, const char* what) {
    const std::span<const std::byte> before = words.first(words.size() - checksum_bytes);
    std::span<const std::byte> last = words.last(checksum_bytes);
    if (crc32c(before) != take<std::uint32_t>(last))
        throw make_error(ErrorCode::io, what, " arrived damaged");
}

template <std::size_t count>
void put_checksum(std::array<std::byte, count>& words) {
    std::byte* at = words.data() + count - checksum_bytes;
    put(at, crc32c(std::span(words).first(count - checksum_bytes)));
}

}  // namespace

Grant Grant::read(std::span<const std::byte, size_bytes> words) {
    std::span<const std::byte> rest = words;
    require_undamaged(words, "a grant");
    const auto magic = take<std::uint32_t>(rest);
    const auto alone = take<std::uint32_t>(rest);
    if (magic != grant_magic || alone > 1)
        throw make_error(ErrorCode::io, "received bytes that are not a grant: ", magic, " ", alone);
    Grant grant;
    grant.alone = alone != 0;
    grant.taken = take<std::uint64_t>(rest);
    grant.may = take<std::uint64_t>(rest);
    return grant;
}

std::array<std::byte, Grant::size_bytes> Grant::write() const {
    std::array<std::byte, size_bytes> words{};
    std::byte* at = words.data();
    put(at, grant_magic);
    put(at, std::uint32_t{alone});
    put(at, taken);
    put(at, may);
    put_checksum(words);
    return words;
}

ChunkHeader ChunkHeader::read(std::span<const std::byte, size_bytes> words) {
    std::span<const std::byte> rest = words;
    require_undamaged(words, "the header of a part of a message");
    const auto magic = take<std::uint32_t>(rest);
    if (magic != chunk_magic && magic != shared_magic)
        throw Error(
            ErrorCode::peer_failed,
            "it sent bytes that are not the header of a message; install the same version of "
            "datamover at both ends");
    ChunkHeader header;
    header.is_shared = magic == shared_magic;
    header.checksum = take<std::uint32_t>(rest);
    header.array = take<std::uint32_t>(rest);
    for (std::uint64_t* const value :
         {&header.place, &header.offset, &header.bytes, &header.segment, &header.position})
        *value = take<std::uint64_t>(rest);
    header.number = static_cast<std::int64_t>(take<std::uint64_t>(rest));
    return header;
}

std::array<std::byte, ChunkHeader::size_bytes> ChunkHeader::write() const {
    std::array<std::byte, size_bytes> words{};
    std::byte* at = words.data();
    put(at, is_shared ? shared_magic : chunk_magic);
    put(at, checksum);
    put(at, array);
    for (const std::uint64_t value : {place, offset, bytes, segment, position}) put(at, value);
    put(at, static_cast<std::uint64_t>(number));
    put_checksum(words);
    return words;
}

std::pair<std::uint64_t, std::uint64_t> share_of(std::uint64_t message_bytes, int pathway,
                                                 int pathways) {
    const auto count = static_cast<std::uint64_t>(pathways);
    const auto which = static_cast<std::uint64_t>(pathway);
    const std::uint64_t even = message_bytes / count + (message_bytes % count != 0 ? 1 : 0);
    const std::uint64_t units = std::max<std::uint64_t>((even + share_bytes - 1) / share_bytes, 1);
    const std::uint64_t begin = which * units * share_bytes;
    return {std::min(begin, message_bytes), std::min(begin + units * share_bytes, message_bytes)};
}

}  // namespace datamover::stream

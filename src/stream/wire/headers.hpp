// SPDX-License-Identifier: BSD-3-Clause
// Headers of frames and of what goes over data connections: integers without gaps, of which the
// first is the CRC32C of those after it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "geometry/make_error.hpp"
#include "memory/crc32c.hpp"

namespace datamover::stream {

/// A message travels in chunks of this size, each with its own checksum.
inline constexpr std::uint64_t chunk_bytes = 1 << 20;
/// Connections share a message at multiples of this.
inline constexpr std::uint64_t share_bytes = 1 << 16;
/// Maximum number of connections for a step between two processes.
inline constexpr int max_pathways = 16;
/// Maximum number of consumers of a stream at a time.
inline constexpr std::size_t most_consumers = 256;

/// A grant of a receiving process: all steps before the place `taken` are taken, those before
/// `may` may be sent. If `alone` is not 0, only the last of these and those that were granted
/// before: the others have been dropped.
struct Grant {
    static constexpr std::uint32_t right_magic = 0x38474d44;  // "DMG8" in little-endian order

    std::uint32_t seal = 0, magic = right_magic;
    std::uint64_t taken = 0, may = 0, alone = 0;
};

/// The header of a frame; its words follow.
struct FrameHeader {
    static constexpr std::uint32_t right_magic = 0x38464d44;  // "DMF8"

    std::uint32_t seal = 0, magic = right_magic;
    std::uint32_t bytes = 0;
    std::uint32_t checksum = 0;  ///< of the words
};

/// Number of a step that is not known to be complete.
inline constexpr std::int64_t no_number = -1;

/// The header of a chunk; its bytes follow, or are in a segment that both ends share.
struct ChunkHeader {
    static constexpr std::uint32_t right_magic = 0x38434d44;   // "DMC8"
    static constexpr std::uint32_t shared_magic = 0x38534d44;  // "DMS8"

    bool is_shared() const { return magic == shared_magic; }

    std::uint32_t seal = 0, magic = right_magic;
    std::uint32_t checksum = 0;  ///< of the bytes
    std::uint32_t array = 0;
    std::uint64_t place = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t segment = 0;
    std::uint64_t position = 0;  ///< in the segment
    /// Of the step, where it has all arrays that are wanted with this one; else `no_number`.
    std::int64_t number = no_number;
};

template <class Header>
std::span<const std::byte> bytes_of_header(const Header& header) {
    static_assert(std::has_unique_object_representations_v<Header>);
    return std::as_bytes(std::span(&header, 1));
}

/// The header with the seal that it must have.
template <class Header>
Header sealed(Header header) {
    header.seal = memory::crc32c(bytes_of_header(header).subspan(sizeof header.seal));
    return header;
}

/// The header at the beginning of bytes. Throws io if it arrived damaged, or has another magic.
template <class Header>
Header header_at(std::span<const std::byte> bytes) {
    Header header;
    std::ranges::copy(bytes.first(sizeof header),
                      std::as_writable_bytes(std::span(&header, 1)).begin());
    bool is_right = header.magic == Header::right_magic;
    if constexpr (requires { Header::shared_magic; }) is_right |= header.is_shared();
    if (!is_right)
        throw make_error(ErrorCode::io,
                         "received bytes that arrived damaged, or are not of this version of the "
                         "stream protocol; install the same version of datamover at both ends");
    if (sealed(header).seal != header.seal)
        throw make_error(ErrorCode::io, "the header of a message arrived damaged");
    return header;
}

/// From where to where of a message one of several connections carries it.
inline std::pair<std::uint64_t, std::uint64_t> share_of(std::uint64_t message_bytes, int pathway,
                                                        int pathways) {
    const auto count = static_cast<std::uint64_t>(pathways);
    const auto which = static_cast<std::uint64_t>(pathway);
    const std::uint64_t even = message_bytes / count + (message_bytes % count != 0 ? 1 : 0);
    const std::uint64_t units = std::max<std::uint64_t>((even + share_bytes - 1) / share_bytes, 1);
    const std::uint64_t begin = which * units * share_bytes;
    return {std::min(begin, message_bytes), std::min(begin + units * share_bytes, message_bytes)};
}

}  // namespace datamover::stream

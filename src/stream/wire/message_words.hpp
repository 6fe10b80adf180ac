// SPDX-License-Identifier: BSD-3-Clause
// Headers of frames and of what goes over data connections: big-endian integers without gaps,
// followed by the CRC32C of the preceding bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace datamover::stream {

/// A message travels in chunks of this size, each with its own checksum.
inline constexpr std::uint64_t chunk_bytes = 1 << 20;
/// Connections share a message at multiples of this.
inline constexpr std::uint64_t share_bytes = 1 << 16;
/// A step goes over at most so many connections between two processes.
inline constexpr int max_pathways = 16;
/// Of a stream, at a time.
inline constexpr std::size_t most_consumers = 256;

/// What a receiving process grants: all steps before the place `taken` are taken, those before
/// `may` may be sent; or, if `alone`, of these the last one, besides those that were granted so
/// before.
struct Grant {
    static constexpr std::size_t size_bytes = 28;

    std::uint64_t taken = 0;
    std::uint64_t may = 0;
    bool alone = false;

    /// Throws io if the words are not a grant, or arrived damaged.
    static Grant read(std::span<const std::byte, size_bytes> words);
    std::array<std::byte, size_bytes> write() const;
};

/// What stands before the words of a frame.
struct FrameHeader {
    static constexpr std::size_t size_bytes = 16;

    std::uint32_t bytes = 0;
    std::uint32_t checksum = 0;  ///< of the words

    /// Throws io if the words are not the header of a frame, or arrived damaged.
    static FrameHeader read(std::span<const std::byte, size_bytes> words);
    std::array<std::byte, size_bytes> write() const;
};

/// Of a step of which more comes, or perhaps.
inline constexpr std::int64_t no_number = -1;

/// What stands before a chunk: its bytes follow, or lie in a segment that both ends share.
struct ChunkHeader {
    static constexpr std::size_t size_bytes = 64;

    bool is_shared = false;
    std::uint32_t checksum = 0;  ///< of the bytes
    std::uint32_t array = 0;
    std::uint64_t place = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t segment = 0;
    std::uint64_t position = 0;  ///< in the segment
    /// Of the step, where it has all arrays that are wanted with this one; else `no_number`.
    std::int64_t number = no_number;

    /// Throws peer_failed where the words are none, io where they arrived damaged.
    static ChunkHeader read(std::span<const std::byte, size_bytes> words);
    std::array<std::byte, size_bytes> write() const;
};

/// From where to where of a message one of several connections carries it.
std::pair<std::uint64_t, std::uint64_t> share_of(std::uint64_t message_bytes, int pathway,
                                                 int pathways);

}  // namespace datamover::stream

// SPDX-License-Identifier: BSD-3-Clause
// The loops over elements (copying, scanning, distributing), and their selection for the processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "address_pair.hpp"
#include "geometry/instruction_set.hpp"
#include "memory/cache_lines.hpp"

namespace datamover {

/// Two nested strided loops around pieces of `bytes` contiguous bytes.
/// For a transposition the source is contiguous along `inner` and the destination along `outer`.
struct LoopShape {
    std::int64_t bytes = 0;
    LoopAxis outer;
    LoopAxis inner;
    LoopAxis planes{};  ///< around both, of short rows and of pairs of pieces alone
};

/// A list of contiguous pieces, counted in bytes, repeated with fixed steps.
struct PieceList {
    const Block* pieces = nullptr;
    std::int64_t count = 0;
    LoopAxis periods{};
};

using ShapeLoop = void (*)(const LoopShape& shape, const char* source, char* destination);
using PiecesLoop = void (*)(const PieceList& list, const char* source, char* destination);
/// n elements between byte addresses that stand in lists; without a list, addresses advance evenly.
using PairsLoop = void (*)(const std::int64_t* source_at, const std::int64_t* destination_at,
                           std::int64_t n, const char* source, char* destination);
/// n elements whose source (gather) or destination (scatter) stands at base + unit * offset,
/// offsets of `width` bytes each; the other side advances by `step`. Reads up to 8 bytes at every
/// offset.
struct OffsetRow {
    const unsigned char* offsets = nullptr;
    std::int64_t width = 0;
    std::int64_t unit = 1;
    std::int64_t step = 0;
    std::int64_t n = 0;
};
using OffsetLoop = void (*)(const OffsetRow& row, const char* source, char* destination);
/// One strided row of n elements.
using RowLoop = void (*)(const char* source, std::int64_t source_step, char* destination,
                         std::int64_t destination_step, std::int64_t n);

constexpr int size_classes = 5;    ///< elements of 1, 2, 4, 8 and 16 bytes
constexpr int listed_classes = 8;  ///< those, and in lists: a point in space, a complex pair
constexpr std::int64_t class_bytes[listed_classes] = {1, 2, 4, 8, 16, 12, 24, 32};
constexpr int longest_fixed_piece = 64;
/// Pieces that begin within a line are streamed from so many bytes on: their ends are not
/// (measured).
constexpr std::int64_t least_streamed_piece = 256;
constexpr int longest_short_row = 7;  ///< elements
constexpr int tile_edge = 8;          ///< elements

/// Whether two pieces of so many bytes in each row, as both sides of a halo, are a loop of their
/// own: up to six doubles.
constexpr bool go_in_pairs(std::int64_t bytes) {
    return bytes > 16 && bytes <= 48 && bytes % 8 == 0;
}

// ---------------------------------------------------------------- scanning address lists

/// How often neighbours in two lists of addresses differ by the given steps on both sides, and how
/// often a difference is another than the one before it.
struct DifferenceCounts {
    std::int64_t touching = 0;
    std::int64_t changes = 0;
};

struct AddressRange {
    std::int64_t low = 0;
    std::int64_t high = 0;
};

/// n is at least 1.
struct ScanLoops {
    DifferenceCounts (*differences)(const std::int64_t* source, const std::int64_t* destination,
                                    std::int64_t n, std::int64_t source_step,
                                    std::int64_t destination_step);
    AddressRange (*range)(const std::int64_t* a, std::int64_t n);
    /// Whether every address lies `step` behind the one before it.
    bool (*even)(const std::int64_t* a, std::int64_t n, std::int64_t step);
    /// Writes (a[i] - low) >> shift in `width` bytes each; may touch up to 8 bytes behind the last.
    void (*write)(const std::int64_t* a, std::int64_t n, std::int64_t low, int shift,
                  std::int64_t width, unsigned char* to);
    /// Reads n offsets of `width` bytes each as base + unit * offset; may touch 8 bytes behind.
    void (*read)(const unsigned char* offsets, std::int64_t n, std::int64_t base, std::int64_t unit,
                 std::int64_t width, std::int64_t* to);
};

// ---------------------------------------------------------------- distributing by target codes

/// Elements of 4 or 8 bytes without gaps between them. Those with a code of at least `targets` are
/// dropped. Any alignment.
struct CodedElems {
    const std::uint8_t* codes = nullptr;
    const std::byte* source = nullptr;
    std::int64_t n = 0;
    std::uint32_t targets = 0;
};

/// Codes have one byte each.
struct PartitionLoops {
    /// Appends each element to the place of its target, and advances the places. Returns false, and
    /// does nothing, if one element at a time is faster: too many targets, or no instructions.
    bool (*fan_out_4)(const CodedElems& elems, std::byte** places);
    bool (*fan_out_8)(const CodedElems& elems, std::byte** places);
    /// Writes targets of any alignment as codes, -1 as `nprocs`, of at most 255 processes. Returns
    /// true if one is neither a rank nor -1.
    bool (*encode_int32)(const std::byte* targets, std::int64_t n, std::uint8_t* codes, int nprocs);
    bool (*encode_int64)(const std::byte* targets, std::int64_t n, std::uint8_t* codes, int nprocs);
    /// Adds the number of codes equal to k to counts[k], for all k below `values`. O(n · values).
    void (*count)(const std::uint8_t* codes, std::int64_t n, std::int64_t* counts, int values);
};

// ---------------------------------------------------------------- levels

/// The loops compiled for one instruction set level.
struct CopyLoops {
    const char* level;
    ShapeLoop fixed_pieces[longest_fixed_piece + 1];  ///< by number of bytes
    ShapeLoop long_pieces;
    ShapeLoop pieces_streaming;  ///< around the caches; nullptr where stores cannot stream
    ShapeLoop strided[size_classes];
    ShapeLoop rows_streaming[size_classes];  ///< that become packed; nullptr likewise
    ShapeLoop tiles[size_classes];           ///< strided, cut into tiles of `tile_edge` squared
    ShapeLoop low_tiles[size_classes];       ///< of half as many rows, for rows that become packed
    ShapeLoop short_rows[size_classes][longest_short_row + 1];  ///< strided, by inner count from 2
    ShapeLoop transpose[size_classes];
    ShapeLoop transpose_streaming[size_classes];  ///< nullptr where stores cannot stream
    PiecesLoop pieces;
    PairsLoop pairs[listed_classes];
    RowLoop row[size_classes];
    OffsetLoop gather[listed_classes];
    OffsetLoop scatter[listed_classes];
    ScanLoops scan;
    PartitionLoops partition;
};

/// The class of an element size that may stand in lists, or -1.
constexpr int listed_class(std::int64_t bytes) {
    for (int k = 0; k < listed_classes; ++k)
        if (class_bytes[k] == bytes) return k;
    return -1;
}

/// The class of an element size, or -1.
constexpr int size_class(std::int64_t bytes) {
    const int found = listed_class(bytes);
    return found < size_classes ? found : -1;
}

/// The loops of every instruction set that this processor has, the best first.
std::span<const CopyLoops* const> usable_copy_loops();
/// The best of these, or those of the level that DATAMOVER_SIMD names. O(1); the first call looks
/// at processor and environment.
const CopyLoops& copy_loops();
const CopyLoops& portable_copy_loops();
#if defined(DATAMOVER_X86_LEVELS)
const CopyLoops& avx2_copy_loops();
const CopyLoops& avx512_copy_loops();
#endif

}  // namespace datamover

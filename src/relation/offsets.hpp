// SPDX-License-Identifier: BSD-3-Clause
// The offsets encoding: short offsets from the base of a chunk.
#pragma once

#include <cstdint>
#include <vector>

#include "storage.hpp"

namespace datamover {

/// One side of a chunk. Width 0: addresses advance by `step` from `base`. Else offsets from `base`,
/// in elements, of so many bytes each, begin at byte `at` of the data.
struct OffsetSide {
    std::int64_t base = 0;
    std::int64_t step = 0;
    std::int64_t at = 0;
    std::int64_t width = 0;  ///< 0, 1, 2, 3, 4 or 8 bytes

    bool operator==(const OffsetSide&) const = default;
};

struct OffsetChunk {
    std::int64_t elems = 0;
    OffsetSide source;
    OffsetSide destination;

    const OffsetSide& side(Side side) const { return side == Side::source ? source : destination; }
    OffsetSide& side(Side side) { return side == Side::source ? source : destination; }
};

/// Offsets of an element from the base of its chunk, in as few whole bytes as the chunk allows. For
/// irregular relations whose neighbours lie near each other, and for halves, whose other side is
/// even.
struct OffsetsStorage final : AddressRelation::Storage {
    using Storage::Storage;
    Encoding encoding() const override { return Encoding::offsets; }
    std::int64_t size() const override { return elems; }
    std::int64_t nbytes() const override {
        return static_cast<std::int64_t>(chunks.size() * sizeof(OffsetChunk) + data.size());
    }
    void visit(const RunVisitor& visit) const override;

    std::int64_t unit(Side side) const {
        return side == Side::source ? source_unit : destination_unit;
    }

    std::vector<OffsetChunk> chunks;
    std::vector<unsigned char> data;  ///< ends with bytes that an offset read as 8 bytes may touch
    std::int64_t source_unit = 1;     ///< bytes that one step of an offset stands for
    std::int64_t destination_unit = 1;
    std::int64_t elems = 0;
};

constexpr std::int64_t longest_chunk_elems = 2048;
constexpr std::int64_t offset_padding_bytes = 8;

/// The byte addresses of elements [first, first + n) of one side of a chunk, which is `own`.
void read_addresses(const OffsetsStorage& storage, const OffsetSide& own, Side side,
                    std::int64_t first, std::int64_t n, std::int64_t* addresses);
/// The byte addresses of all elements on one side.
void read_all_addresses(const OffsetsStorage& storage, Side side,
                        std::vector<std::int64_t>& addresses);

}  // namespace datamover

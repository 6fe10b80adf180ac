// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a long message, each packed, checksummed and sent while it is in the processor's
// caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "datamover/address_relation.hpp"
#include "datamover/pair_part.hpp"
#include "plan/compile.hpp"

namespace datamover::stream {

/// The memory of an array.
struct SourceMemory {
    const std::byte* data = nullptr;
    AddressBounds bounds;
};

/// A message as pieces, stored one after the other in it.
class PackingPieces {
public:
    /// Messages of no more bytes are packed at once. With pieces of 1 MiB, both ends of a
    /// connection wait for each other more often: 0.72 to 0.8 of the speed; with those of 8
    /// MiB, 1.5 times it.
    static constexpr std::int64_t least_bytes = 1 << 20;
    /// With the elements that it is packed from, a piece fits into a processor's own cache.
    static constexpr std::int64_t most_bytes = 1 << 18;

    /// The pieces of a message to a process: none if it is short. Throws as plan::compile.
    PackingPieces(const PairPart& part, const plan::RelationSide& from,
                  const plan::RelationSide& message);

    bool empty() const { return pieces_.empty(); }
    /// Packs one piece.
    struct Bound {
        BoundCopy pack;
        std::size_t end = 0;  ///< in the message
    };
    /// Throws as AddressRelation::bind_gather.
    std::vector<Bound> bind(SourceMemory source, std::byte* message) const;

private:
    struct Piece {
        std::size_t shape = 0;
        std::int64_t source_shift_bytes = 0, bytes = 0;
    };
    std::vector<AddressRelation> shapes_;
    std::vector<Piece> pieces_;
};

}  // namespace datamover::stream

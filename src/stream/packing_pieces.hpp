// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a long message, each packed, checksummed and sent while it is in the processor's
// caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "datamover/address_relation.hpp"
#include "datamover/pair_part.hpp"
#include "plan/compile.hpp"

namespace datamover::stream {

/// Where an array lies.
struct SourceMemory {
    const std::byte* data = nullptr;
    AddressBounds bounds;
};

/// A message as pieces that lie one behind the other in it.
class PackingPieces {
public:
    /// Messages of no more bytes are packed at once. Those that the receiver reads where they lie:
    static constexpr std::int64_t least_bytes = 1 << 16;
    /// The same, where pieces do not go there around the caches:
    static constexpr std::int64_t least_cached_bytes = 1 << 19;
    /// Those that are sent over a connection, whose ends wait for each other more with pieces:
    static constexpr std::int64_t least_sent_bytes = 2 << 20;
    /// With what it is packed from, a piece fits into a processor's own cache.
    static constexpr std::int64_t most_bytes = 1 << 18;

    /// Of a message to a process: none where it is short. Throws as plan::compile.
    PackingPieces(const PairPart& part, const plan::RelationSide& from,
                  const plan::RelationSide& message);

    bool empty() const { return pieces_.empty(); }
    /// Packs one piece.
    struct Bound {
        BoundCopy pack;
        std::size_t begin = 0, end = 0;  ///< in the message
    };
    /// Where the pieces are packed.
    enum class Into {
        message,  ///< one behind the other in memory for the message
        staging   ///< each at the begin of memory for the longest one
    };
    /// Throws as AddressRelation::bind_gather.
    std::vector<Bound> bind(SourceMemory source, std::byte* memory, Into into) const;
    std::size_t longest_bytes() const { return longest_bytes_; }

private:
    struct Piece {
        std::size_t shape = 0;
        std::int64_t source_shift_bytes = 0, bytes = 0;
    };
    std::vector<AddressRelation> shapes_;
    std::vector<Piece> pieces_;
    std::size_t longest_bytes_ = 0;
};

}  // namespace datamover::stream

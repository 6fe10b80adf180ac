// SPDX-License-Identifier: BSD-3-Clause
// Iteration over the addresses of one side of a relation.
#pragma once

#include "datamover/side.hpp"
#include "offsets.hpp"

namespace datamover {

/// `elems` elements of one side whose addresses advance by fixed steps; in bytes.
struct SideRun {
    std::int64_t start = 0;
    std::int64_t elems = 1;
    std::int64_t step = 0;
};

/// Calls emit(const SideRun&) for all addresses of a side, in order. Offsets are read on this side
/// alone, and in chunks.
template <class Emit>
void walk_side(const AddressRelation::Storage& storage, Side side, Emit&& emit) {
    const auto* offsets = dynamic_cast<const OffsetsStorage*>(&storage);
    if (offsets == nullptr) {
        storage.visit(
            [&](const StridedRun& r) { emit(SideRun{r.start(side), r.elems, r.step(side)}); });
        return;
    }
    std::vector<std::int64_t> addresses(static_cast<std::size_t>(longest_chunk_elems));
    for (const OffsetChunk& chunk : offsets->chunks) {
        const OffsetSide& own = chunk.side(side);
        if (own.width == 0) {
            emit(SideRun{own.base, chunk.elems, own.step});
            continue;
        }
        read_addresses(*offsets, own, side, 0, chunk.elems, addresses.data());
        for (std::int64_t i = 0; i < chunk.elems; ++i)
            emit(SideRun{addresses[static_cast<std::size_t>(i)], 1, 0});
    }
}

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Contiguous pieces of memory on either side of a relation.
#include "side_walk.hpp"

namespace datamover {
namespace {

std::vector<MemoryPiece> pieces_of(const AddressRelation::Storage& storage, Side side, char* base) {
    std::vector<MemoryPiece> pieces;
    const std::int64_t elem = storage.elem_bytes(side);
    auto append = [&](std::int64_t address, std::int64_t bytes) {
        char* data = base + address;
        if (!pieces.empty()) {
            MemoryPiece& last = pieces.back();
            if (static_cast<char*>(last.data) + last.bytes == data) {
                last.bytes += static_cast<std::size_t>(bytes);
                return;
            }
        }
        pieces.push_back({data, static_cast<std::size_t>(bytes)});
    };
    walk_side(storage, side, [&](const SideRun& r) {
        if (r.step == elem) {
            append(r.start, r.elems * elem);
            return;
        }
        for (std::int64_t i = 0; i < r.elems; ++i) append(r.start + i * r.step, elem);
    });
    return pieces;
}

}  // namespace

std::vector<MemoryPiece> AddressRelation::pieces(Side side, const void* base) const {
    return pieces_of(*storage_, side, static_cast<char*>(const_cast<void*>(base)));
}

}  // namespace datamover

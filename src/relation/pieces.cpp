// SPDX-License-Identifier: BSD-3-Clause
// Of which contiguous pieces of memory does either side of a relation consist?
#include "encodings.hpp"

namespace datamover {
namespace {

std::vector<MemoryPiece> pieces_of(const AddressRelation::Storage& storage, bool of_source,
                                   char* base) {
    std::vector<MemoryPiece> pieces;
    const std::int64_t elem =
        of_source ? storage.source_elem_bytes : storage.destination_elem_bytes;
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
    storage.visit([&](const StridedRun& r) {
        const std::int64_t start = of_source ? r.source : r.destination;
        const std::int64_t step = of_source ? r.source_step : r.destination_step;
        if (step == elem) {
            append(start, r.elems * elem);
            return;
        }
        for (std::int64_t i = 0; i < r.elems; ++i) append(start + i * step, elem);
    });
    return pieces;
}

}  // namespace

std::vector<MemoryPiece> AddressRelation::source_pieces(const void* base) const {
    return pieces_of(*storage_, true, static_cast<char*>(const_cast<void*>(base)));
}

std::vector<MemoryPiece> AddressRelation::destination_pieces(void* base) const {
    return pieces_of(*storage_, false, static_cast<char*>(base));
}

}  // namespace datamover

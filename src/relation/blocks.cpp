// SPDX-License-Identifier: BSD-3-Clause
// How is a relation kept as addresses and lengths of contiguous blocks?
#include "encodings.hpp"

namespace datamover {

void BlocksStorage::visit(const RunVisitor& visit) const {
    for (const Block& b : blocks)
        visit({b.source, b.destination, b.elems, source_elem_bytes, destination_elem_bytes});
}

StoragePtr encode_blocks(const AddressRelation::Storage& from) {
    auto result =
        std::make_shared<BlocksStorage>(from.source_elem_bytes, from.destination_elem_bytes);
    std::vector<Block>& blocks = result->blocks;
    const std::int64_t source_elem = from.source_elem_bytes;
    const std::int64_t destination_elem = from.destination_elem_bytes;
    auto append = [&](std::int64_t s, std::int64_t d, std::int64_t elems) {
        if (!blocks.empty()) {
            Block& last = blocks.back();
            if (last.source + last.elems * source_elem == s &&
                last.destination + last.elems * destination_elem == d) {
                last.elems += elems;
                return;
            }
        }
        blocks.push_back({s, d, elems});
    };
    from.visit([&](const StridedRun& r) {
        if (r.source_step == source_elem && r.destination_step == destination_elem) {
            append(r.source, r.destination, r.elems);
            return;
        }
        for (std::int64_t i = 0; i < r.elems; ++i)
            append(r.source + i * r.source_step, r.destination + i * r.destination_step, 1);
    });
    result->elems = from.size();
    return result;
}

}  // namespace datamover

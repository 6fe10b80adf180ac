// SPDX-License-Identifier: BSD-3-Clause
// How is a relation kept as two addresses per element?
#include "encodings.hpp"

namespace datamover {

void PairsStorage::visit(const RunVisitor& visit) const {
    const std::size_t n = source.size();
    for (std::size_t first = 0; first < n;) {
        StridedRun run{source[first], destination[first], 1, source_elem_bytes,
                       destination_elem_bytes};
        std::size_t next = first + 1;
        if (next < n) {
            run.source_step = source[next] - source[first];
            run.destination_step = destination[next] - destination[first];
            while (next < n && source[next] - source[next - 1] == run.source_step &&
                   destination[next] - destination[next - 1] == run.destination_step)
                ++next;
            run.elems = static_cast<std::int64_t>(next - first);
        }
        const bool side_by_side = run.source_step == source_elem_bytes &&
                                  run.destination_step == destination_elem_bytes;
        if (run.elems == 2 && !side_by_side) {
            // The second element may begin a longer row.
            run = {source[first], destination[first], 1, source_elem_bytes, destination_elem_bytes};
            next = first + 1;
        }
        visit(run);
        first = next;
    }
}

StoragePtr encode_pairs(const AddressRelation::Storage& from) {
    auto result =
        std::make_shared<PairsStorage>(from.source_elem_bytes, from.destination_elem_bytes);
    result->source.reserve(static_cast<std::size_t>(from.size()));
    result->destination.reserve(static_cast<std::size_t>(from.size()));
    from.visit([&](const StridedRun& r) {
        for (std::int64_t i = 0; i < r.elems; ++i) {
            result->source.push_back(r.source + i * r.source_step);
            result->destination.push_back(r.destination + i * r.destination_step);
        }
    });
    return result;
}

}  // namespace datamover

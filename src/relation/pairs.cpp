// SPDX-License-Identifier: BSD-3-Clause
// How is a relation kept as two addresses per element?
#include "encodings.hpp"
#include "pair_scan.hpp"

namespace datamover {

void PairsStorage::visit(const RunVisitor& visit) const {
    scan_pairs({source.data(), destination.data(), source.size(), 1, 1, source_elem_bytes,
                destination_elem_bytes},
               [&](const StridedRun& run) {
                   visit(run);
                   return true;
               });
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

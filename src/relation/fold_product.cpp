// SPDX-License-Identifier: BSD-3-Clause
// How does a relation of any encoding become a list of products?
#include "encodings.hpp"
#include "nest_folder.hpp"

namespace datamover {

StoragePtr encode_product(const AddressRelation::Storage& from) {
    auto result =
        std::make_shared<ProductStorage>(from.source_elem_bytes, from.destination_elem_bytes);
    auto keep = [&](const Nest& nest) {
        Nest folded = nest;
        fold_axes(folded.axes);
        result->append(folded);
    };
    NestFolder folder;
    from.visit([&](const StridedRun& run) { folder.push(run, keep); });
    folder.finish(keep);
    return result;
}

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Which encoding suits a relation, and how is one turned into another?
#include "datamover/error.hpp"
#include "encodings.hpp"
#include "relation_view.hpp"

namespace datamover {

namespace {

StoragePtr encode_from(Encoding encoding, const AddressRelation::Storage& from) {
    switch (encoding) {
        case Encoding::pairs: return encode_pairs(from);
        case Encoding::blocks: return encode_blocks(from);
        case Encoding::runs: return encode_runs(from);
        case Encoding::dictionary: return encode_dictionary(from);
        case Encoding::product: return encode_product(from);
    }
    throw Error(ErrorCode::invalid_argument, "unknown encoding");
}

}  // namespace

StoragePtr encode_as(Encoding encoding, const StoragePtr& from) {
    return from->encoding() == encoding ? from : encode_from(encoding, *from);
}

StoragePtr encode_view(Encoding encoding, const RelationView& view) {
    return encode_from(encoding, view);
}

StoragePtr encode_best(const StoragePtr& from) {
    StoragePtr best = encode_product(*from);
    for (Encoding e : {Encoding::dictionary, Encoding::runs, Encoding::blocks, Encoding::pairs}) {
        StoragePtr candidate = encode_as(e, from);
        if (candidate->nbytes() < best->nbytes()) best = std::move(candidate);
    }
    return best;
}

}  // namespace datamover

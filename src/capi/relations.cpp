// SPDX-License-Identifier: BSD-3-Clause
// How does a C program move elements from addresses to addresses within one process?
#include "handles.hpp"

using namespace datamover;
using namespace datamover::capi;

int datamover_relation_from_pairs(datamover_relation** relation, int64_t n, const int64_t* source,
                                  const int64_t* destination, int64_t source_elem_bytes,
                                  int64_t destination_elem_bytes) {
    return guarded([&] {
        hand_out(relation, "relation",
                 AddressRelation::from_pairs(values(source, n, "source"),
                                             values(destination, n, "destination"),
                                             source_elem_bytes, destination_elem_bytes));
    });
}

int datamover_relation_encode(datamover_relation** encoded, const datamover_relation* relation,
                              const char* encoding) {
    return guarded([&] {
        const Encoding wanted = encoding_from_name(&given(encoding, "encoding"));
        hand_out(encoded, "encoded", value_of(relation, "relation").encode(wanted));
    });
}

int datamover_relation_size(const datamover_relation* relation, int64_t* elems) {
    return guarded([&] { given(elems, "elems") = value_of(relation, "relation").size(); });
}

int datamover_relation_nbytes(const datamover_relation* relation, int64_t* nbytes) {
    return guarded([&] { given(nbytes, "nbytes") = value_of(relation, "relation").nbytes(); });
}

int datamover_relation_encoding(const datamover_relation* relation, const char** encoding) {
    return guarded([&] {
        given(encoding, "encoding") = encoding_name(value_of(relation, "relation").encoding());
    });
}

int datamover_relation_copy(const datamover_relation* relation, const void* source,
                            void* destination) {
    return guarded([&] { value_of(relation, "relation").copy(source, destination); });
}

int datamover_relation_gather(const datamover_relation* relation, const void* source,
                              void* buffer) {
    return guarded([&] { value_of(relation, "relation").gather(source, buffer); });
}

int datamover_relation_scatter(const datamover_relation* relation, const void* buffer,
                               void* destination) {
    return guarded([&] { value_of(relation, "relation").scatter(buffer, destination); });
}

int datamover_relation_free(datamover_relation** relation) {
    return release(relation, "relation");
}

// SPDX-License-Identifier: BSD-3-Clause
// C interface: address relations.
#include "relations.hpp"

using namespace datamover;
using namespace datamover::capi;

int datamover_relation_split(const datamover_relation* relation, datamover_relation** source_half,
                             datamover_relation** destination_half) {
    return guarded([&] {
        const AddressRelation& value = value_of(relation, "relation");
        given(source_half, "source_half");
        given(destination_half, "destination_half");
        AddressRelation first = value.source_half();
        AddressRelation second = value.destination_half();
        hand_out(source_half, "source_half", std::move(first));
        hand_out(destination_half, "destination_half", std::move(second));
    });
}

int datamover_accept_put(const void* message, int64_t length, void* destination,
                         int64_t begin_bytes, int64_t end_bytes) {
    return guarded([&] {
        // Nothing lies in an empty range.
        if (end_bytes > begin_bytes) given(static_cast<char*>(destination), "destination");
        accept_put(bytes_at(message, length, "message"), destination, {begin_bytes, end_bytes});
    });
}

int datamover_answer_get(const void* request, int64_t request_length, const void* source,
                         int64_t begin_bytes, int64_t end_bytes, void* answer, int64_t capacity,
                         int64_t* length) {
    return guarded([&] {
        if (end_bytes > begin_bytes) given(static_cast<const char*>(source), "source");
        write_out(answer_get(bytes_at(request, request_length, "request"), source,
                             {begin_bytes, end_bytes}),
                  answer, capacity, length);
    });
}

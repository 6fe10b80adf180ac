// SPDX-License-Identifier: BSD-3-Clause
// C interface: address relations.
#include "relations.hpp"

using namespace datamover;
using namespace datamover::capi;

int datamover_relation_bounds(const datamover_relation* relation, datamover_side side,
                              int64_t* begin_bytes, int64_t* end_bytes) {
    return guarded([&] {
        const AddressRelation& value = value_of(relation, "relation");
        const AddressBounds bounds = value.bounds(side_of(side));
        std::int64_t& end = given(end_bytes, "end_bytes");
        given(begin_bytes, "begin_bytes") = bounds.begin_bytes;
        end = bounds.end_bytes;
    });
}

int datamover_relation_update(const datamover_relation* relation, const void* source,
                              datamover_type source_type, void* destination,
                              datamover_type destination_type, const char* op) {
    return guarded([&] {
        ElementUpdate update;
        update.op = op_from_name(&given(op, "op"));
        update.source_type = scalar_type(source_type);
        update.destination_type = scalar_type(destination_type);
        const AddressRelation& r = value_of(relation, "relation");
        r.copy(memory_for(r.size(), source, "source"),
               memory_for(r.size(), destination, "destination"), update);
    });
}

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

// SPDX-License-Identifier: BSD-3-Clause
// C interface: address relations.
#include <span>

#include "datamover/relation_datatype.hpp"
#include "datamover/relation_messages.hpp"
#include "geometry/make_error.hpp"
#include "handles.hpp"

using namespace datamover;
using namespace datamover::capi;

static_assert(sizeof(datamover_piece) == sizeof(MemoryPiece));

namespace {

Side side_of(datamover_side side) {
    if (side == DATAMOVER_SOURCE) return Side::source;
    if (side == DATAMOVER_DESTINATION) return Side::destination;
    throw make_error(ErrorCode::invalid_argument, "side ", static_cast<int>(side),
                     " is neither the source nor the destination");
}

/// Copies entries to the caller's memory; without memory only their number is asked for.
template <class Entry>
void write_out(const std::vector<Entry>& entries, void* to, std::int64_t capacity,
               std::int64_t* count) {
    given(count, "the number of entries") = static_cast<std::int64_t>(entries.size());
    if (to == nullptr && capacity == 0) return;
    if (static_cast<std::int64_t>(entries.size()) > capacity)
        throw make_error(ErrorCode::out_of_range, "there is room for ", capacity, " entries, ",
                         entries.size(), " are to be written");
    if (entries.empty()) return;
    std::memcpy(&given(static_cast<char*>(to), "the memory for entries"), entries.data(),
                entries.size() * sizeof(Entry));
}

std::span<const std::uint8_t> bytes_at(const void* bytes, std::int64_t length, const char* name) {
    if (length < 0) throw make_error(ErrorCode::invalid_argument, name, " has ", length, " bytes");
    const auto* first = static_cast<const std::uint8_t*>(bytes);
    if (length > 0) given(first, name);
    return {first, static_cast<std::size_t>(length)};
}

}  // namespace

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
    return guarded([&] {
        const AddressRelation& r = value_of(relation, "relation");
        r.copy(memory_for(r.size(), source, "source"),
               memory_for(r.size(), destination, "destination"));
    });
}

int datamover_relation_gather(const datamover_relation* relation, const void* source,
                              void* buffer) {
    return guarded([&] {
        const AddressRelation& r = value_of(relation, "relation");
        r.gather(memory_for(r.size(), source, "source"), memory_for(r.size(), buffer, "buffer"));
    });
}

int datamover_relation_scatter(const datamover_relation* relation, const void* buffer,
                               void* destination) {
    return guarded([&] {
        const AddressRelation& r = value_of(relation, "relation");
        r.scatter(memory_for(r.size(), buffer, "buffer"),
                  memory_for(r.size(), destination, "destination"));
    });
}

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

int datamover_relation_join(datamover_relation** relation, const datamover_relation* source_half,
                            const datamover_relation* destination_half) {
    return guarded([&] {
        hand_out(relation, "relation",
                 AddressRelation::join(value_of(source_half, "source_half"),
                                       value_of(destination_half, "destination_half")));
    });
}

int datamover_relation_to_bytes(const datamover_relation* relation, void* bytes, int64_t capacity,
                                int64_t* length) {
    return guarded(
        [&] { write_out(value_of(relation, "relation").to_bytes(), bytes, capacity, length); });
}

int datamover_relation_from_bytes(datamover_relation** relation, const void* bytes,
                                  int64_t length) {
    return guarded([&] {
        hand_out(relation, "relation",
                 AddressRelation::from_bytes(bytes_at(bytes, length, "bytes")));
    });
}

int datamover_relation_iovec(const datamover_relation* relation, datamover_side side,
                             const void* base, datamover_piece* pieces, int64_t capacity,
                             int64_t* count) {
    return guarded([&] {
        const AddressRelation& value = value_of(relation, "relation");
        write_out(value.pieces(side_of(side), base), pieces, capacity, count);
    });
}

int datamover_relation_datatype(const datamover_relation* relation, datamover_side side,
                                MPI_Datatype element, MPI_Datatype* datatype) {
    return guarded([&] {
        given(datatype, "datatype") =
            relation_datatype(value_of(relation, "relation"), side_of(side), element);
    });
}

int datamover_relation_put_message(const datamover_relation* relation, const void* source,
                                   void* message, int64_t capacity, int64_t* length) {
    return guarded([&] {
        const AddressRelation& r = value_of(relation, "relation");
        write_out(put_message(r, memory_for(r.size(), source, "source")), message, capacity,
                  length);
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

int datamover_relation_get_request(const datamover_relation* relation, void* request,
                                   int64_t capacity, int64_t* length) {
    return guarded(
        [&] { write_out(get_request(value_of(relation, "relation")), request, capacity, length); });
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

int datamover_relation_free(datamover_relation** relation) {
    return release(relation, "relation");
}

// SPDX-License-Identifier: BSD-3-Clause
// C interface of relations: arguments, and results in the caller's memory.
#pragma once

#include <cstring>

#include "datamover/advanced/relation_datatype.hpp"
#include "datamover/advanced/relation_messages.hpp"
#include "handles.hpp"

namespace datamover::capi {

static_assert(sizeof(datamover_piece) == sizeof(MemoryPiece));

inline ElementUpdate update_of(const char* op, datamover_type source_type,
                               datamover_type destination_type) {
    ElementUpdate update;
    update.op = op_from_name(op);
    update.source_type = scalar_type(source_type);
    update.destination_type = scalar_type(destination_type);
    return update;
}

/// Copies entries to the caller's memory; without memory only their number is asked for.
template <class Entry>
void write_out(const std::vector<Entry>& entries, void* to, std::int64_t capacity,
               std::int64_t* count) {
    announce_count(std::ssize(entries), to || capacity != 0, capacity, count, "entries");
    if (entries.empty() || (!to && capacity == 0)) return;
    std::memcpy(&given(static_cast<char*>(to), "the memory for entries"), entries.data(),
                entries.size() * sizeof(Entry));
}

inline std::span<const std::uint8_t> bytes_at(const void* bytes, std::int64_t length,
                                              const char* name) {
    if (length < 0) throw make_error(ErrorCode::invalid_argument, name, " has ", length, " bytes");
    const auto* first = static_cast<const std::uint8_t*>(bytes);
    if (length > 0) given(first, name);
    return {first, static_cast<std::size_t>(length)};
}

/// Memory of which a range of bytes is read or written; NULL is right for an empty one.
template <class T>
T* memory_of_range(T* memory, std::int64_t begin_bytes, std::int64_t end_bytes, const char* name) {
    if (!memory && end_bytes > begin_bytes)
        throw make_error(ErrorCode::invalid_argument, name, " is NULL");
    return memory;
}

/// Hands out both halves, or none.
inline void hand_out_halves(const AddressRelation& relation, datamover_relation** source_half,
                            datamover_relation** destination_half) {
    given(source_half, "source_half");
    given(destination_half, "destination_half");
    AddressRelation first = relation.source_half();
    AddressRelation second = relation.destination_half();
    hand_out(source_half, "source_half", std::move(first));
    hand_out(destination_half, "destination_half", std::move(second));
}

}  // namespace datamover::capi

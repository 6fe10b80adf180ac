// SPDX-License-Identifier: BSD-3-Clause
// Put and get messages for relations of which the other process knows one side or none.
#include "datamover/advanced/relation_messages.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "extent.hpp"
#include "geometry/make_error.hpp"

namespace datamover {
namespace {

/// A put message begins with the number of bytes of its relation.
constexpr std::size_t head_bytes = 8;

std::size_t message_bytes(const AddressRelation& half) {
    return static_cast<std::size_t>(checked_message_bytes(half.size(), half.source_elem_bytes()));
}

/// The half that a put message carries, and its elements.
struct Put {
    AddressRelation half;
    std::span<const std::uint8_t> elems;
};

Put read_put(std::span<const std::uint8_t> message) {
    std::uint64_t relation_bytes = 0;
    if (message.size() >= head_bytes) std::memcpy(&relation_bytes, message.data(), head_bytes);
    if (message.size() < head_bytes || relation_bytes > message.size() - head_bytes)
        throw make_error(ErrorCode::invalid_argument, "a put message of ", message.size(),
                         " bytes is cut off");
    const auto length = static_cast<std::size_t>(relation_bytes);
    const std::span<const std::uint8_t> elems = message.subspan(head_bytes + length);
    // Elements have at least one byte: a relation of more than came is not looked at.
    const AddressRelation half = AddressRelation::from_bytes(message.subspan(head_bytes, length));
    const bool whole = half.size() <= static_cast<std::int64_t>(elems.size()) &&
                       elems.size() == message_bytes(half) && half.contiguous(Side::source) &&
                       half.bounds(Side::source).begin_bytes == 0;
    if (!whole)
        throw make_error(ErrorCode::invalid_argument, "a put message holds ", elems.size(),
                         " bytes of elements, its relation is not that of so many in order");
    return {half, elems};
}

/// What a request may ask for where the caller sets no limit.
std::int64_t default_answer_bytes(std::span<const std::uint8_t> request, AddressBounds memory) {
    constexpr std::int64_t per_request_byte = 64;
    const std::int64_t held = std::max<std::int64_t>(0, memory.end_bytes - memory.begin_bytes);
    const auto sent = static_cast<std::int64_t>(request.size());
    return held + per_request_byte * sent;
}

}  // namespace

std::vector<std::uint8_t> put_message(const AddressRelation& relation, const void* source) {
    const AddressRelation half = relation.destination_half(relation.source_elem_bytes());
    const std::vector<std::uint8_t> addresses = half.to_bytes();
    std::vector<std::uint8_t> message(head_bytes + addresses.size() + message_bytes(half));
    const std::uint64_t relation_bytes = addresses.size();
    std::memcpy(message.data(), &relation_bytes, head_bytes);
    std::copy(addresses.begin(), addresses.end(), message.begin() + head_bytes);
    relation.gather(source, message.data() + head_bytes + addresses.size());
    return message;
}

void accept_put(std::span<const std::uint8_t> message, void* destination, AddressBounds memory,
                const ElementUpdate& update) {
    const Put put = read_put(message);
    put.half.require_inside(Side::destination, memory, "the destination");
    put.half.copy(put.elems.data(), destination, update);
}

std::vector<std::uint8_t> get_request(const AddressRelation& relation) {
    return relation.source_half().to_bytes();
}

std::vector<std::uint8_t> answer_get(std::span<const std::uint8_t> request, const void* source,
                                     AddressBounds memory, std::int64_t most_bytes) {
    const AddressRelation half = AddressRelation::from_bytes(request);
    const std::int64_t most = most_bytes < 0 ? default_answer_bytes(request, memory) : most_bytes;
    // Asked first: all that follows takes work in the number of elements.
    if (half.size() > most / half.destination_elem_bytes())
        throw make_error(ErrorCode::out_of_range, "a get request is for ", half.size(),
                         " elements of ", half.destination_elem_bytes(), " bytes, where at most ",
                         most, " bytes are answered");
    const AddressBounds written = half.bounds(Side::destination);
    if (!half.contiguous(Side::destination) || written.begin_bytes != 0)
        throw Error(ErrorCode::invalid_argument,
                    "a get request's relation does not fill a message in order");
    half.require_inside(Side::source, memory, "the source");
    try {
        std::vector<std::uint8_t> answer(static_cast<std::size_t>(written.end_bytes));
        half.copy(source, answer.data());
        return answer;
    } catch (const std::bad_alloc&) {
        throw make_error(ErrorCode::no_memory, "a get request is for ", written.end_bytes,
                         " bytes");
    }
}

}  // namespace datamover

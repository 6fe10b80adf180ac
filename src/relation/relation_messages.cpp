// SPDX-License-Identifier: BSD-3-Clause
// What does one process send another that knows only one side of the memory, or none?
#include "datamover/relation_messages.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "datamover/error.hpp"

namespace datamover {
namespace {

/// A put message begins with the number of bytes of its relation.
constexpr std::size_t head_bytes = 8;

std::size_t message_bytes(const AddressRelation& half) {
    return static_cast<std::size_t>(half.size() * half.source_elem_bytes());
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
        throw Error(ErrorCode::invalid_argument,
                    "a put message of " + std::to_string(message.size()) + " bytes is cut off");
    const auto length = static_cast<std::size_t>(relation_bytes);
    Put put{AddressRelation::from_bytes(message.subspan(head_bytes, length)),
            message.subspan(head_bytes + length)};
    const AddressBounds read = put.half.source_bounds();
    if (put.elems.size() != message_bytes(put.half) || !put.half.source_contiguous() ||
        (!put.half.empty() && read.begin_bytes != 0))
        throw Error(ErrorCode::invalid_argument,
                    "a put message holds " + std::to_string(put.elems.size()) +
                        " bytes of elements, its relation is not that of so many in order");
    return put;
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
    put.half.require_inside(RelationSide::destination, memory, "the destination");
    put.half.copy(put.elems.data(), destination, update);
}

std::vector<std::uint8_t> get_request(const AddressRelation& relation) {
    return relation.source_half().to_bytes();
}

std::vector<std::uint8_t> answer_get(std::span<const std::uint8_t> request, const void* source,
                                     AddressBounds memory) {
    const AddressRelation half = AddressRelation::from_bytes(request);
    const AddressBounds written = half.destination_bounds();
    if (!half.destination_contiguous() || written.begin_bytes != 0)
        throw Error(ErrorCode::invalid_argument,
                    "a get request's relation does not fill a message in order");
    half.require_inside(RelationSide::source, memory, "the source");
    try {
        std::vector<std::uint8_t> answer(static_cast<std::size_t>(written.end_bytes));
        half.copy(source, answer.data());
        return answer;
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::no_memory,
                    "a get request asks for " + std::to_string(written.end_bytes) + " bytes");
    }
}

}  // namespace datamover

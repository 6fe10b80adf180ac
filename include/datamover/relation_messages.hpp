// SPDX-License-Identifier: BSD-3-Clause
// Put and get messages for relations of which the other process knows one side or none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datamover/address_relation.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

// The paper's three models of passing. With send and receive each side holds its half of the
// relation: `gather` here, `scatter` there. With put the source knows where its elements go and
// says so in the message; with get the destination knows where they come from and asks for them.
// Who takes such a message trusts nothing in it.
// Source: the paper on compact address relations, section 2.

/// Put: the destination half of a relation and the elements behind it. The addresses of `source`
/// are not checked. Cost: one gather, and the encoding's bytes.
std::vector<std::uint8_t> put_message(const AddressRelation& relation, const void* source);
/// Writes the elements of a put message where it says. `memory` is the range of byte addresses,
/// counted from `destination`, that may be written.
/// Throws invalid_argument when the message is none or its destinations repeat, out_of_range when
/// it writes outside `memory`, wrong_type when `update` does not fit its elements. Nothing is
/// written then. Work and memory are bounded by the message's length.
void accept_put(std::span<const std::uint8_t> message, void* destination, AddressBounds memory,
                const ElementUpdate& update = {});

/// Get: the source half of a relation, as the source needs it to answer.
std::vector<std::uint8_t> get_request(const AddressRelation& relation);
/// The elements that a request asks for, in its order, from the range `memory` of byte addresses
/// counted from `source`: what `relation.scatter` takes apart at the destination.
/// At most `most_bytes` are answered; a negative number stands for as many as `memory` has and 64
/// for every byte of the request. Work and memory are bounded by that and by the request's length.
/// Throws invalid_argument when the request is none, out_of_range when it reads outside `memory` or
/// asks for more, no_memory.
std::vector<std::uint8_t> answer_get(std::span<const std::uint8_t> request, const void* source,
                                     AddressBounds memory, std::int64_t most_bytes = -1);

}  // namespace datamover

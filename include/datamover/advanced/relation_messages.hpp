// SPDX-License-Identifier: BSD-3-Clause
// Put and get messages for relations of which the other process has one side or none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

// The paper's three models of message passing. With send and receive, each side holds its half of
// the relation: `gather` at the source, `scatter` at the destination. With put, the source has the
// destination addresses and puts them in the message. With get, the destination has the source
// addresses and requests the elements. A process that accepts such a message checks everything in
// it. Source: the paper on compact address relations, section 2.

/// Put: make a message of the destination half of a relation, followed by the elements. The
/// addresses of `source` are not checked. Cost: one gather, and the encoding's bytes.
std::vector<std::uint8_t> put_message(const AddressRelation& relation, const void* source);
/// Write the elements of a put message to the destinations in it. `memory` is the range of byte
/// addresses, relative to `destination`, that may be written. Throws invalid_argument if the
/// message is malformed or its destinations repeat, out_of_range if it writes outside `memory`,
/// wrong_type if `update` does not fit its elements; nothing is written then. Work and memory are
/// bounded by the message's length.
void accept_put(std::span<const std::uint8_t> message, void* destination, AddressBounds memory,
                const ElementUpdate& update = {});

/// Get: make a request of the source half of a relation, for the source to answer.
std::vector<std::uint8_t> get_request(const AddressRelation& relation);
/// Answer a request with its elements, in its order, from the range `memory` of byte addresses
/// relative to `source`; the destination scatters the answer with `relation.scatter`. The answer
/// has at most `most_bytes`; a negative number stands for the size of `memory` plus 64 bytes for
/// every byte of the request. Throws invalid_argument if the request is malformed, out_of_range if
/// it reads outside `memory` or requests more, no_memory. Work and memory are bounded by the limit
/// and by the request's length.
std::vector<std::uint8_t> answer_get(std::span<const std::uint8_t> request, const void* source,
                                     AddressBounds memory, std::int64_t most_bytes = -1);

}  // namespace datamover

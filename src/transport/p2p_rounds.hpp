// SPDX-License-Identifier: BSD-3-Clause
// How does data move by messages when there is little memory for them?
#pragma once

#include <memory>
#include <vector>

#include "transport.hpp"

namespace datamover::transport {

/// Whether a message goes as several of at most `context.chunk_bytes`.
bool goes_in_rounds(const BindContext& context, const Leg& leg);

/// Messages through few buffers, used again and again in a round. Speaks with p2p's transport at
/// the other side where that has one message for a pair.
std::unique_ptr<Transport> messages_in_rounds(const BindContext& context,
                                              const std::vector<Leg>& sends,
                                              const std::vector<Leg>& receives);

}  // namespace datamover::transport

// SPDX-License-Identifier: BSD-3-Clause
// The transport "p2p": packed messages.
#include <string>

#include "message_transport.hpp"

namespace datamover::transport {

extern const TransportKind p2p_kind;
const TransportKind p2p_kind{
    "p2p",
    MessageMemory::buffers,
    AcceptedOption::chunk_bytes,
    true,
    [](const PairFacts& facts) { return !facts.same_process; },
    [](const PairFacts&) { return true; },
    [](const PairFacts& facts) {
        if (!facts.why_not_shared.empty()) return facts.why_not_shared;
        return std::string(facts.same_node ? "there is no shared memory for it"
                                           : "on another node");
    },
    [](const BindContext& context, const std::vector<Pair>& pairs) {
        return bind_messages(context, pairs, {"p2p", nullptr});
    },
};

}  // namespace datamover::transport

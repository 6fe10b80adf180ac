// SPDX-License-Identifier: BSD-3-Clause
// Which transport carries each pair, and how much memory is there for messages?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binding.hpp"
#include "node_exchange.hpp"
#include "staging.hpp"
#include "transport/transport.hpp"

namespace datamover {

/// What all processes have found out together about what was offered on their nodes.
struct NodeUse {
    bool mapped = true;    ///< everything could be mapped by all
    bool readable = true;  ///< the arrays that are not shared can be read by all
    /// Who should copy, where either side could: the one whose busiest process has less to copy.
    std::int64_t most_sent_bytes = 0, most_received_bytes = 0;
    std::int64_t most_exchanged_bytes = 0;  ///< both together, of one process
};

/// The facts of the direction from one rank to another, one of which is this process.
class FactFinder {
public:
    FactFinder(const transport::BindContext& context, const NodeOffers& offers, const NodeUse& use)
        : context_(context), offers_(offers), use_(use) {}

    transport::PairFacts operator()(std::int64_t from, std::int64_t to, const PairPart& part) const;

private:
    void add_reading(transport::PairFacts& facts, const PairPart& part) const;

    const transport::BindContext& context_;
    const NodeOffers& offers_;
    NodeUse use_;
};

/// Memory that messages may take.
struct MessageMemory {
    StagingOffers staging;
    std::int64_t chunk_bytes = 0;  ///< longest message; 0: no limit
    std::int64_t slots = 1;        ///< buffers per direction of a pair, under a limit
};

/// Whether this process sends or receives anything through memory of the library's, as far as the
/// facts tell before any is set aside. Local.
bool needs_message_memory(const mpi::ProcessGroup& group, const ProcessPlan& plan,
                          const FactFinder& facts, const std::string& transport);

/// Sets staging memory aside where it is needed, and agrees on the length of messages under the
/// limit of options.max_bytes. Collective; throws invalid_argument, on all processes, for a limit
/// that leaves no room for an element per message.
MessageMemory message_memory(const mpi::ProcessGroup& group, const ProcessPlan& plan,
                             const FactFinder& facts, std::int64_t elem_bytes,
                             const MoverOptions& options);

/// Legs sorted by the transport that carries them, in order of transport_kinds(), and why.
struct ChosenLegs {
    struct OfKind {
        std::vector<transport::Leg> sends, receives;
    };
    std::vector<OfKind> kinds;
    std::vector<LegReason> reasons;
};

/// Local. Throws as choose_transport does.
ChosenLegs choose_legs(const mpi::ProcessGroup& group, const ProcessPlan& plan,
                       const FactFinder& facts, const StagingOffers& staging,
                       const std::string& transport);

}  // namespace datamover

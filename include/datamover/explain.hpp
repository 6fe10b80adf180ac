// SPDX-License-Identifier: BSD-3-Clause
// Explanations of plans: messages, sizes, peers, encodings and transports.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/export.h"
#include "datamover/motion_plan.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// The number of messages of one size.
struct MessageSize {
    std::int64_t elems = 0;
    std::int64_t messages = 0;

    bool operator==(const MessageSize&) const = default;
};

/// A plan summed over all processes. Messages are between different processes; elements that a
/// process keeps are counted separately. Vectors are indexed by rank.
struct TrafficSummary {
    std::vector<std::int64_t> sent_elems, received_elems, kept_elems;
    std::vector<std::int64_t> sent_messages, received_messages;
    std::vector<MessageSize> sizes;  ///< ascending; empty if there are too many different ones
    std::int64_t smallest_elems = 0, largest_elems = 0;  ///< of all messages; 0 if there are none
    /// Between processes of one node, and between nodes.
    std::int64_t shared_messages = 0, shared_elems = 0;
    std::int64_t p2p_messages = 0, p2p_elems = 0;
    bool nodes_known =
        true;  ///< false: there are too many pairs to classify, and the four numbers above are 0
};

/// Sum a plan over all processes. `node_size` processes with adjacent ranks share a node (0: all of
/// them). Throws invalid_argument (node_size), unsupported (distributions whose common period has
/// more than about 10^8 blocks). Local; does not need MPI. Cost: for one redistribution between
/// block-cyclic layouts, proportional to the number of processes and the tables per dimension,
/// independent of the pairs; for other plans, proportional to the sections.
TrafficSummary summarize_traffic(const MotionPlan& plan, std::int64_t node_size = 0);

/// Pairs of processes, and how the elements between them are related, one entry per pair. The
/// relation is between dense row-major local arrays, with the blocks of a process stored
/// contiguously.
struct PairTable {
    std::vector<std::int64_t> source, destination;  ///< ranks
    std::vector<std::int64_t> elems;
    std::vector<Encoding> encoding;
    std::vector<std::int64_t> relation_bytes;  ///< size of the encoded relation

    std::int64_t size() const { return static_cast<std::int64_t>(source.size()); }
};

/// Return all pairs with elements to move, including a process with itself, by source and then
/// destination rank. Throws invalid_argument if elem_bytes < 1. Cost: the whole plan.
PairTable explain_pairs(const MotionPlan& plan, std::int64_t elem_bytes);

/// One process's part of a plan: what it sends and what it receives, by peer.
struct RankExplanation {
    PairTable outgoing, incoming;
};

/// Return one process's part of a plan. Throws out_of_range for a rank outside the plan,
/// invalid_argument if elem_bytes < 1. Cost: the rank's own part.
RankExplanation explain_rank(const MotionPlan& plan, std::int64_t rank, std::int64_t elem_bytes);

/// Elements between groups of adjacent ranks: group g holds the ranks bounds[g] .. bounds[g+1]-1;
/// elems[s * groups + d] are moved from group s to group d.
struct TrafficMatrix {
    std::vector<std::int64_t> bounds;
    std::vector<std::int64_t> elems;

    std::int64_t groups() const { return static_cast<std::int64_t>(bounds.size()) - 1; }
};

/// Return the number of elements from each group to each other, for at most `max_groups` groups
/// (one rank each if that suffices). Throws as summarize_traffic, and invalid_argument if
/// max_groups < 1. Cost: for one redistribution between block-cyclic layouts (without `ranks`),
/// max_groups² times the blocks per dimension; otherwise the pairs.
TrafficMatrix traffic_matrix(const MotionPlan& plan, std::int64_t max_groups = 64);

}  // namespace datamover

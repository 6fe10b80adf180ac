// SPDX-License-Identifier: BSD-3-Clause
// Explanations of plans: messages, sizes, peers, encodings and transports.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/address_relation.hpp"
#include "datamover/export.h"
#include "datamover/motion_plan.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// How many messages have one size.
struct MessageSize {
    std::int64_t elems = 0;
    std::int64_t messages = 0;

    bool operator==(const MessageSize&) const = default;
};

/// A plan summed over all processes. A message is what goes from one process to another one; what a
/// process keeps is counted apart. Vectors are indexed by rank.
struct TrafficSummary {
    std::vector<std::int64_t> sent_elems, received_elems, kept_elems;
    std::vector<std::int64_t> sent_messages, received_messages;
    std::vector<MessageSize> sizes;  ///< ascending; empty when there are too many different ones
    std::int64_t smallest_elems = 0, largest_elems = 0;  ///< of all messages; 0 when there are none
    /// Between processes of one node and between nodes.
    std::int64_t shared_messages = 0, shared_elems = 0;
    std::int64_t p2p_messages = 0, p2p_elems = 0;
    bool nodes_known = true;  ///< false: too many pairs to tell apart, the four numbers above are 0
};

/// Sums a plan over all processes. `node_size` processes with neighbouring ranks share a node
/// (0: all of them). For one redistribution between block-cyclic layouts the cost follows the
/// number of processes and the tables per dimension, never the pairs; for other plans the sections.
/// Throws invalid_argument (node_size), unsupported (distributions whose common period has more
/// than about 10^8 blocks). Local; needs no MPI.
TrafficSummary summarize_traffic(const MotionPlan& plan, std::int64_t node_size = 0);

/// Pairs of processes and how the elements between them are related, one entry per pair. The
/// relation is between dense row-major local arrays, a process's blocks one behind the other.
struct PairTable {
    std::vector<std::int64_t> source, destination;  ///< ranks
    std::vector<std::int64_t> elems;
    std::vector<Encoding> encoding;
    std::vector<std::int64_t> relation_bytes;  ///< that the encoded relation occupies

    std::int64_t size() const { return static_cast<std::int64_t>(source.size()); }
};

/// All pairs with something to move, also a process with itself, by source and then destination
/// rank. Cost: the whole plan. Throws invalid_argument when elem_bytes < 1.
PairTable explain_pairs(const MotionPlan& plan, std::int64_t elem_bytes);

/// One process's part of a plan: what it sends and what it receives, by peer.
struct RankExplanation {
    PairTable outgoing, incoming;
};

/// Cost: the rank's own part. Throws out_of_range for a rank outside the plan, invalid_argument
/// when elem_bytes < 1.
RankExplanation explain_rank(const MotionPlan& plan, std::int64_t rank, std::int64_t elem_bytes);

/// Elements between groups of neighbouring ranks: group g holds the ranks
/// bounds[g] .. bounds[g+1]-1; elems[s * groups + d] go from group s to group d.
struct TrafficMatrix {
    std::vector<std::int64_t> bounds;
    std::vector<std::int64_t> elems;

    std::int64_t groups() const { return static_cast<std::int64_t>(bounds.size()) - 1; }
};

/// Who sends how much to whom, for at most `max_groups` groups (one rank each where that suffices).
/// Cost: for one redistribution between block-cyclic layouts (without `ranks`) max_groups² times
/// the blocks per dimension; else the pairs. Throws as summarize_traffic does, invalid_argument
/// when max_groups < 1.
TrafficMatrix traffic_matrix(const MotionPlan& plan, std::int64_t max_groups = 64);

}  // namespace datamover

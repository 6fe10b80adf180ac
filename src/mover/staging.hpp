// SPDX-License-Identifier: BSD-3-Clause
// Which shared memory do the processes of a node set aside to receive through?
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "transport/transport.hpp"

namespace datamover {

/// How much staging memory there may be, and in which portions (measured; see docs/decisions).
struct StagingSizes {
    std::int64_t chunk_bytes = std::int64_t{512} << 10;
    std::int64_t slots = 2;
    std::int64_t most_bytes = std::int64_t{64} << 20;  ///< of one process for one mover
    std::int64_t lane_bytes = std::numeric_limits<std::int64_t>::max();  ///< of one lane
};

/// The lanes of this process, in order of node_ranks; those without slots do not exist.
struct StagingOffers {
    std::vector<transport::StagingLane> lanes_in;   ///< from each process to this one
    std::vector<transport::StagingLane> lanes_out;  ///< from this process to each
    bool mapped = true;  ///< all that was offered to this process could be mapped

    static StagingOffers none(std::size_t node_size);
    /// Whether there is a lane; false for position -1.
    bool receives_from(int position) const;
    bool sends_to(int position) const;
};

/// Sets lanes aside for the messages that come from each process of the node (`incoming_bytes`, 0
/// for none), for elements of `elem_bytes`, and tells the senders. A process that cannot have the
/// memory offers nothing. Collective on the node.
StagingOffers offer_staging(const mpi::ProcessGroup& group,
                            const std::vector<std::int64_t>& incoming_bytes,
                            std::int64_t elem_bytes, const StagingSizes& sizes);

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// What do the processes of a node tell each other when a mover is bound?
#pragma once

#include <vector>

#include "transport/transport.hpp"

namespace datamover {

/// What every process of the node offers, in order of node_ranks; nothing is mapped where `mapped`
/// is false.
struct NodeOffers {
    std::vector<transport::NodePeer> peers;
    std::vector<bool> source_shared, destination_shared;
    bool mapped = true;  ///< all that was offered to this process could be mapped
};

/// Exchanges segments, memory layouts and signal lines on the node. `control` may be null (no
/// shared memory to be had here). Collective on the node.
NodeOffers exchange_on_node(const mpi::ProcessGroup& group, const ArrayPart& source,
                            const ArrayPart& destination, const memory::AllocationPtr& control);

}  // namespace datamover

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
    /// The system lets this process read the arrays of all processes of the node that are not
    /// shared.
    bool readable = false;
    bool permitted = false;  ///< the system lets this process read memory of all of them at all
};

/// Exchanges segments, memory layouts and signal lines on the node. `control` may be null (no
/// shared memory to be had here). `try_reading`: also says where arrays lie that are not shared,
/// and tries whether they can be read. Collective on the node.
NodeOffers exchange_on_node(const mpi::ProcessGroup& group, const ArrayPart& source,
                            const ArrayPart& destination, const memory::AllocationPtr& control,
                            bool try_reading);

}  // namespace datamover

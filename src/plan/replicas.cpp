// SPDX-License-Identifier: BSD-3-Clause
// Choice of the replica that sends to a process.
#include "replicas.hpp"

#include <tuple>

namespace datamover::plan {

std::int64_t nearest_replica(const BlockCyclic& layout, std::int64_t block, std::int64_t receiver,
                             Nodes nodes) {
    if (layout.replicas() == 1) return block;
    const std::int64_t grid_size = layout.num_blocks() / layout.replicas();
    const auto on_node_of_receiver = [&](std::int64_t rank) {
        return !nodes.empty() &&
               nodes[static_cast<std::size_t>(rank)] == nodes[static_cast<std::size_t>(receiver)];
    };
    const auto distance = [&](std::int64_t copy) {
        const std::int64_t rank = layout.owner(copy);
        return std::make_tuple(rank != receiver, !on_node_of_receiver(rank), rank);
    };
    std::int64_t nearest = block % grid_size;
    for (std::int64_t copy = nearest + grid_size; copy < layout.num_blocks(); copy += grid_size)
        if (distance(copy) < distance(nearest)) nearest = copy;
    return nearest;
}

}  // namespace datamover::plan

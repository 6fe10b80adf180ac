// SPDX-License-Identifier: BSD-3-Clause
// Arrays of other processes of the node, as offered by them and mapped here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "datamover/array_part.hpp"
#include "datamover/side.hpp"
#include "memory/segment_pool.hpp"
#include "mpi/process_group.hpp"
#include "signal_lines.hpp"

namespace datamover::transport {

/// An array of another process of this node.
struct PeerArray {
    std::optional<memory::SharedPlace> place;  ///< of its base; none: not in shared memory
    std::byte* address = nullptr;              ///< of its base, in the other process
    bool described = false;                    ///< `memory` says where its blocks lie
    MemoryLayout memory;
};

/// What another process of this node offered when a mover was bound.
struct NodePeer {
    std::int64_t pid = 0;
    std::optional<memory::SharedPlace> signals;
    std::vector<PerSide<PeerArray>> arrays;  ///< per motion
};

/// The two ends of one motion, as this process holds them.
using OwnArrays = PerSide<const ArrayPart*>;

/// What this process offers to its node, as words.
std::vector<std::int64_t> offer_to_node(std::span<const OwnArrays> arrays,
                                        const memory::Allocation* signals, bool describe_private);

/// The offers of the processes of a node. A peer's offer is read, and its memory mapped, when a
/// pair with it asks: what nobody asks for costs nothing.
class NodeMemory {
public:
    /// `offers` are the words of each process, in order of node_ranks.
    NodeMemory(const mpi::ProcessGroup& group, std::vector<std::vector<std::int64_t>> offers,
               std::size_t motions);

    /// Throws invalid_argument for a rank of another node.
    const NodePeer& peer(std::int64_t rank);
    /// Where an array's base is mapped here. Throws no_memory where it cannot be mapped.
    std::byte* base(std::int64_t rank, std::size_t motion, Side side);
    /// The first of the peer's signal lines. Throws no_memory where it has none.
    std::byte* signals(std::int64_t rank);

    /// What is mapped; keeps it mapped.
    const std::vector<std::shared_ptr<memory::SharedSegment>>& mapped() const { return mapped_; }

private:
    std::byte* map(const memory::SharedPlace& place);

    const mpi::ProcessGroup& group_;
    std::vector<std::vector<std::int64_t>> offers_;
    std::size_t motions_;
    std::vector<std::optional<NodePeer>> peers_;
    std::vector<std::shared_ptr<memory::SharedSegment>> mapped_;
};

}  // namespace datamover::transport

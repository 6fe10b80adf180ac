// SPDX-License-Identifier: BSD-3-Clause
// Slots of shared memory that processes of a node provide for receiving.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "transport/transport.hpp"

namespace datamover {

/// How much memory slots may take, and in which portions (measured; see docs/decisions).
struct SlotSizes {
    std::int64_t chunk_bytes = std::int64_t{512} << 10;
    std::int64_t slots = 2;
    std::int64_t most_bytes = std::int64_t{64} << 20;  ///< of one process for one mover
    std::int64_t ring_bytes = std::numeric_limits<std::int64_t>::max();  ///< of one ring
};

/// The rings of this process, in order of node_ranks; those without slots do not exist.
struct SlotOffers {
    std::vector<transport::SlotRing> in;   ///< from each process to this one
    std::vector<transport::SlotRing> out;  ///< from this process to each

    static SlotOffers none(std::size_t node_size);
    /// Whether there is a ring; false for position -1.
    bool receives_from(int position) const;
    bool sends_to(int position) const;
};

/// Sets rings aside for the messages that come from each process of the node (`incoming_bytes`, 0
/// for none), for elements of at most `elem_bytes`, and offers them to the senders; maps those that
/// this process sends through. A process that cannot have the memory offers nothing, one that
/// cannot map a ring throws no_memory. `binding` is this process's number of the binding.
/// Collective on the node.
SlotOffers offer_slots(const mpi::ProcessGroup& group,
                       const std::vector<std::int64_t>& incoming_bytes, std::int64_t elem_bytes,
                       const SlotSizes& sizes, std::uint64_t binding);

}  // namespace datamover

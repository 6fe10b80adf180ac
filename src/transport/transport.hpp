// SPDX-License-Identifier: BSD-3-Clause
// What must a way to carry data from process to process be able to do?
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "datamover/address_relation.hpp"
#include "datamover/array_part.hpp"
#include "datamover/mover.hpp"
#include "mpi/process_group.hpp"
#include "plan/compile.hpp"
#include "staging_lane.hpp"

namespace datamover::transport {

/// What a pair of processes knows of each other before anything is chosen. Both sides of a pair see
/// the same facts about the direction from `source_rank` to `destination_rank`.
struct PairFacts {
    std::int64_t source_rank = 0;
    std::int64_t destination_rank = 0;
    bool same_process = false;
    bool same_node = false;
    bool source_shared = false;       ///< the source array lies in a segment the other side can map
    bool destination_shared = false;  ///< likewise the destination array
    bool plain_copy = true;           ///< no update, no conversion
    bool staged = false;              ///< the destination has set a staging lane aside
    bool readable = false;            ///< the system lets each access the other's memory
    bool balanced = true;             ///< those who send most also receive most
    bool receiver_reads = true;       ///< then: the receiver reads, else the sender writes
    std::int64_t direct_run_bytes = 0;  ///< then: the shorter of the mean runs on both sides, where
                                        ///< runs come in the same order; else 0

    /// Whether one copy between the two arrays does it.
    bool in_one_copy() const { return source_shared || (destination_shared && plain_copy); }
};

/// One direction of one pair: this process sends to, or receives from, `peer`.
struct Leg {
    std::int64_t peer = 0;
    const PairPart* part = nullptr;  ///< lives as long as the binding
    PairFacts facts;
};

/// An array of another process of this node, mapped here where it is shared.
struct PeerArray {
    std::shared_ptr<memory::SharedSegment> segment;  ///< null: cannot be mapped
    std::byte* base = nullptr;
    std::byte* address = nullptr;  ///< of the base, in the other process
    MemoryLayout memory;
};

/// What a peer on this node told at binding.
struct NodePeer {
    int rank = 0;
    std::int64_t pid = 0;
    PeerArray source, destination;
    std::shared_ptr<memory::SharedSegment> control_segment;
    std::byte* control = nullptr;  ///< the peer's signal lines for this mover
};

/// The elements of a message: of the source's or of the destination's type, whichever is narrower.
struct WireElement {
    ScalarType type = ScalarType::opaque;
    std::int64_t bytes = 0;
};

/// All that a transport may look at while it binds.
struct BindContext {
    mpi::ProcessGroupPtr group;
    const MotionPlan* plan = nullptr;
    const ArrayPart* source = nullptr;
    const ArrayPart* destination = nullptr;
    ElementUpdate update;
    plan::MessageOrder order = plan::MessageOrder::row_major;
    bool receivers_copy = true;  ///< on a node: who copies, if both arrays could be reached
    int tag = 0;
    std::vector<NodePeer> node;     ///< in order of the group's node_ranks
    memory::AllocationPtr control;  ///< this process's signal lines for this mover
    std::int64_t chunk_bytes = 0;   ///< longest message under a limit of memory; 0: no limit
    std::int64_t slots = 1;         ///< under a limit: buffers per direction of a pair
    std::vector<StagingLane> lanes_in, lanes_out;  ///< from and to each process of the node

    plan::RelationSide source_side() const;
    plan::RelationSide destination_side() const;
    plan::RelationSide message_side() const;
    WireElement wire() const;
    /// What happens to elements on the way into a message, and out of it.
    ElementUpdate packing_update() const;
    ElementUpdate unpacking_update() const;
};

/// A way to carry, bound to one mover's legs. start, then progress until it says true; again and
/// again. Neither allocates.
class Transport {
public:
    virtual ~Transport() = default;
    /// Tells peers that this process has started; never waits, costs little. Called on all
    /// transports of a mover before any start.
    virtual void announce() {}
    /// Begins the work of one round without waiting for anyone.
    virtual void start() = 0;
    /// Does what can be done now; true when all of the round is complete.
    virtual bool progress() = 0;
    /// The peers that this round still waits for.
    virtual std::vector<std::int64_t> waiting_for() const = 0;
    virtual void report(std::vector<MoverLeg>& lines) const = 0;
    /// Bytes of buffers that this transport holds besides the user's arrays.
    virtual std::int64_t extra_bytes() const { return 0; }
};

/// The line of `explain` for a leg.
MoverLeg leg_line(std::int64_t peer, bool sends, const char* transport,
                  const AddressRelation& relation, const CopyKernel& kernel);

/// A kind of transport: its name, which pairs it can carry, for which of them it is the better
/// choice than all that come later in the list, and how it is bound.
struct TransportKind {
    const char* name;
    bool (*carries)(const PairFacts&);
    bool (*pays)(const PairFacts&);
    std::unique_ptr<Transport> (*bind)(const BindContext&, std::vector<Leg> sends,
                                       std::vector<Leg> receives);
};

/// All kinds, in order of preference. A new transport is one file and one line in registry.cpp.
const std::vector<TransportKind>& transport_kinds();

/// The kind that carries a pair: the first that can and pays, or, when `forced` names one, that one
/// (pairs within a process are always copied by "self"). Throws unsupported, invalid_argument.
const TransportKind& choose_transport(const PairFacts& facts, std::string_view forced);

/// Why that kind was chosen, for explain.
std::string reason_for(const TransportKind& kind, const PairFacts& facts, std::string_view forced);

}  // namespace datamover::transport

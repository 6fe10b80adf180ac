// SPDX-License-Identifier: BSD-3-Clause
// The interface of transports, their registry, and what they know of the memory of a node.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/advanced/user_transport.hpp"
#include "datamover/array_part.hpp"
#include "datamover/mover.hpp"
#include "datamover/side.hpp"
#include "geometry/make_error.hpp"
#include "memory/cache_lines.hpp"
#include "memory/segment_pool.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/process_group.hpp"
#include "pair_program.hpp"

namespace datamover::transport {

/// Whether data comes to this process, or leaves it.
enum Direction : std::size_t { incoming = 0, outgoing = 1 };

/// One cache line, owned (read) by one process and written by one other. The values are numbers of
/// rounds: `go` says that the writer has begun round n (its array may be accessed), `done` that it
/// has finished copying in round n.
struct alignas(64) SignalLine {
    std::atomic<std::uint64_t> go[2];
    std::atomic<std::uint64_t> done[2];
};
/// The line before them, the owner's number of the binding; 0: the lines are given back. Peers read
/// it in every round, so it has a line of its own, which nobody writes meanwhile: the look at it
/// then costs nothing.
struct alignas(64) BindingLine {
    std::atomic<std::uint64_t> number;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(SignalLine) == 64 && sizeof(BindingLine) == 64);

inline std::int64_t signal_memory_bytes(std::size_t lines) {
    return static_cast<std::int64_t>(sizeof(BindingLine) + lines * sizeof(SignalLine));
}

inline BindingLine& binding_line(std::byte* memory) {
    return *reinterpret_cast<BindingLine*>(memory);
}

inline SignalLine& signal_line(std::byte* memory, std::size_t number) {
    return reinterpret_cast<SignalLine*>(memory + sizeof(BindingLine))[number];
}

/// Puts zeroed lines of a binding into fresh memory.
inline void clear_signal_lines(std::byte* memory, std::size_t count, std::uint64_t binding) {
    new (memory) BindingLine{binding};
    for (std::size_t i = 0; i < count; ++i)
        new (memory + sizeof(BindingLine) + sizeof(SignalLine) * i) SignalLine{};
}

/// A peer's number of the binding. It changes when the peer frees its side of the mover.
class PeerBinding {
public:
    explicit PeerBinding(const std::atomic<std::uint64_t>& number)
        : number_(&number), known_(number.load(std::memory_order_acquire)) {}

    /// Throws peer_failed if the peer has freed its side.
    void require(std::int64_t peer) const {
        if (number_->load(std::memory_order_acquire) == known_) return;
        throw make_error(ErrorCode::peer_failed, "process ", peer,
                         " has freed its side of the mover, or gave it up");
    }

private:
    const std::atomic<std::uint64_t>* number_;
    std::uint64_t known_;
};

/// Marks lines as given back: a peer that has not heard must not write there any more.
inline void retire_signal_lines(std::byte* memory) {
    binding_line(memory).number.store(0, std::memory_order_release);
}

/// Memory of the receiver: two lines of signals, then slots of equal size, used in turn. The sender
/// counts the chunks that it has filled, the receiver those that it has drained. Beside the
/// sender's count stands the receiver's number of the binding, 0 once the ring is gone: the sender
/// looks at it in every round, and has that line at hand.
struct SlotRing {
    static constexpr std::int64_t line_bytes = memory::line_bytes;
    static constexpr std::int64_t signal_bytes = 2 * line_bytes;

    std::byte* data = nullptr;
    std::int64_t slot_bytes = 0;
    std::int64_t slots = 0;
    std::shared_ptr<const void> memory;  ///< keeps the mapping

    using Count = std::atomic<std::uint64_t>;

    std::int64_t bytes() const { return signal_bytes + slots * slot_bytes; }
    Count& filled() const { return *reinterpret_cast<Count*>(data); }
    Count& drained() const { return *reinterpret_cast<Count*>(data + line_bytes); }
    Count& binding() const { return *reinterpret_cast<Count*>(data + sizeof(Count)); }
    std::byte* slot(std::uint64_t chunk) const {
        return data + signal_bytes +
               static_cast<std::int64_t>(chunk % static_cast<std::uint64_t>(slots)) * slot_bytes;
    }
    /// Puts counts of zero into fresh memory.
    void clear_counts(std::uint64_t number) const {
        new (data) Count(0);
        new (data + line_bytes) Count(0);
        new (data + sizeof(Count)) Count(number);
    }
};

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

/// The offers of the processes of a node. A peer's offer is read, and its memory mapped, when a
/// pair with it asks: what nobody asks for costs nothing.
class NodeMemory {
public:
    /// `offers` are the words of each process, in order of its ranks.
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
    std::byte* map(std::int64_t rank, const std::optional<memory::SharedPlace>& place,
                   const char* what);

    const mpi::ProcessGroup& group_;
    std::vector<std::vector<std::int64_t>> offers_;
    std::size_t motions_;
    std::vector<std::optional<NodePeer>> peers_;
    std::vector<std::shared_ptr<memory::SharedSegment>> mapped_;
};

struct TransportKind;

/// What a user says of how a kind is to carry.
struct TransportOptions {
    std::int64_t chunk_bytes = 0;        ///< longest message or slot; 0: as usual
    std::optional<bool> receivers_copy;  ///< where either side could; none: as usual
};

/// Whether one name alone is that of a kind, or "auto".
bool is_transport_name(std::string_view name);
/// Whether a kind is among the names.
bool names_transport(std::string_view names, std::string_view kind);
/// Throws invalid_argument for names that are not such, and for manners that a kind does not have.
void check_transport_names(std::string_view names);
/// In what manner pairs of a kind are carried, of names that were verified: as the first name says
/// that is the kind's or "auto".
TransportOptions options_of_transport(std::string_view names, std::string_view kind);
/// Whether the names name a kind, or say in what manner it carries what "auto" chooses it for.
bool concerns(std::string_view names, const TransportKind& kind);
/// The same names with one of them in another manner than the usual one, in all ways worth a trial:
/// each side copies; messages of several lengths. None where a manner is given.
std::vector<std::string> other_options(std::string_view names);

/// What the rates say, in nanoseconds, of one copy and of slots, between which "auto" chooses;
/// nothing where it does not come to that.
struct CostComparison {
    double direct_ns = 0, slots_ns = 0;
    bool built_in = true;  ///< the rates are

    bool direct_pays() const { return slots_ns > 0 && direct_ns <= slots_ns; }
    /// For a reason, behind its other words.
    std::string text() const;
};

/// What a pair of processes knows of each other before anything is chosen, for one array. Both
/// sides of a pair see the same facts about the direction from `source_rank` to
/// `destination_rank`.
struct PairFacts {
    std::int64_t source_rank = 0;
    std::int64_t destination_rank = 0;
    bool same_process = false;
    bool same_node = false;
    PerSide<bool> shared;    ///< the array of a side lies in a segment that the other side can map
    bool plain_copy = true;  ///< no update, no conversion
    bool slots = false;      ///< the destination has set slots of shared memory aside
    bool readable = false;   ///< the system lets each access the other's memory
    /// A few pages of arrays that both sides rewrite, such as ghosts: straight copies would wait
    /// for each line that the other core has.
    bool small_ghost_exchange = false;
    bool balanced = true;        ///< those who send most also receive most
    bool receiver_reads = true;  ///< then: the receiver reads, else the sender writes
    /// Where the other's memory is readable: the shorter of the mean runs on both sides, where runs
    /// come in the same order; else 0.
    std::int64_t direct_run_bytes = 0;
    CostComparison rewriting;    ///< straight into the other's array, if elements may be rewritten
    CostComparison reading;      ///< by the system's help, where there are direct runs
    std::string why_not_shared;  ///< why nothing can be shared although the node is the same

    /// Whether one copy between the two arrays does it.
    bool in_one_copy() const { return shared.source || (shared.destination && plain_copy); }
};

/// What one array adds to a pair.
struct PairShare {
    std::size_t motion = 0;  ///< number of the binding's motion
    const PairPart* part = nullptr;
    PairFacts facts;
};

/// One direction of one pair, with all arrays that one transport carries: this process sends to, or
/// receives from, `peer`.
struct Pair {
    std::int64_t peer = 0;
    Direction direction = outgoing;
    std::vector<PairShare> shares;
    std::string why;  ///< this transport carries it

    bool sends() const { return direction == outgoing; }
    std::int64_t elems() const;
    /// Whether all elements move unchanged.
    bool plain_copy() const;
};

/// One plan between two arrays; a binding has one or several.
struct BoundMotion {
    const MotionPlan* plan = nullptr;
    PerSide<const ArrayPart*> array;
    ElementUpdate update;
    plan::MessageOrder order = plan::MessageOrder::row_major;
    bool in_place = false;  ///< on every process, source and destination are one array

    /// The array whose elements are those of a message: the one with the narrower elements.
    const ArrayPart& wire() const {
        return array.source->elem_bytes <= array.destination->elem_bytes ? *array.source
                                                                         : *array.destination;
    }
    /// What happens to elements on the way into a message, and out of it.
    ElementUpdate packing_update() const;
    ElementUpdate unpacking_update() const;
};

/// What this process offers to its node, as words.
std::vector<std::int64_t> offer_to_node(std::span<const BoundMotion> motions,
                                        const memory::Allocation* signals, bool describe_private);

/// All that a transport may look at while it binds.
class BindContext {
public:
    mpi::ProcessGroupPtr group;
    std::vector<BoundMotion> motions;
    bool receivers_copy = true;  ///< on a node: who copies, if both arrays could be reached
    std::size_t kind = 0;        ///< number of the transport that binds
    TransportOptions options;    ///< in which the user wants it to carry
    int first_tag = 0;           ///< of the messages of this mover; tags_per_kind for each kind
    NodeMemory* node = nullptr;
    memory::AllocationPtr signals;  ///< this process's signal lines: per kind, per process
    std::int64_t chunk_bytes = 0;   ///< longest message
    bool packs = true;              ///< whether any process has to pack messages, or to unpack them
    bool one_way = false;           ///< whether processes that send much receive little
    std::int64_t buffers = 1;       ///< per direction of a pair, where messages need buffers
    std::vector<SlotRing> rings_in;   ///< from each process of the node, in order of its ranks
    std::vector<SlotRing> rings_out;  ///< to each process of the node

    static constexpr int tags_per_kind = 2;
    /// Of messages with data; the next one is that of answers to them, where a transport has such.
    int tag() const { return first_tag + tags_per_kind * static_cast<int>(kind); }
    /// The line that a peer writes for this transport, and the peer's line that is written here.
    SignalLine& own_signal_line(std::int64_t peer) const;
    SignalLine& peer_signal_line(std::int64_t peer) const;

    /// Of all messages of a pair together.
    std::int64_t message_bytes(const Pair& pair) const;
    /// Packing (for a pair that sends) or unpacking.
    PairProgram message_program(const Pair& pair, const ChunkRules& rules) const;
    /// What a pair moves, between the arrays here and those of the peer (or of this process): where
    /// they are mapped, which throws no_memory where they cannot be, or at their addresses in the
    /// other process.
    enum class Reach { mapped, by_address };
    std::vector<ArrayMotion> motions_to_peer(const Pair& pair, Reach reach) const;

private:
    ArrayMotion own_motion(const PairShare& share) const;
};

/// A way to carry, bound to the pairs of one mover. start, then progress until it is complete;
/// again and again. Neither allocates.
class Transport {
public:
    virtual ~Transport() = default;
    /// For `explain`: a line for each direction of a pair.
    const std::vector<MoverPair>& lines() const { return lines_; }
    /// Bytes of buffers that this transport holds besides the user's arrays.
    virtual std::int64_t extra_bytes() const { return extra_bytes_; }
    /// Tells peers that this process has started; never waits, costs little. Called on all
    /// transports of a mover before any start.
    virtual void announce() {}
    /// Begins the work of one round without waiting for anyone.
    virtual void start() = 0;
    /// Does what can be done now.
    virtual Progress progress() = 0;
    /// The peers that this round still waits for.
    virtual std::vector<std::int64_t> waiting_for() const;
    /// Whether long messages get on only while it is asked for progress, so that who waits does not
    /// sleep meanwhile.
    virtual bool needs_polls() const { return false; }

    /// When all have bound. Of kinds that all processes bind it may be collective; what it throws
    /// it throws on all of them.
    virtual void all_have_bound() {}

protected:
    /// Adds what a program carries. Lines have the numbers of the transport's pairs.
    MoverPair& add_line(const BindContext& context, const Pair& pair, const PairProgram& program);
    /// Whether this round still waits for what a line is about.
    virtual bool waits_for(std::size_t) const { return false; }

    std::vector<MoverPair> lines_;
    std::int64_t extra_bytes_ = 0;
};

/// What a transport needs of this process's memory for each direction of a pair.
enum class MessageMemory { none, buffers, slots };

/// What a user may say behind its name (TransportOptions).
enum class AcceptedOption { nothing, chunk_bytes, who_copies };

/// What most kinds have in common: they carry between processes, for no pair unless they are named,
/// and always for the same reason.
inline bool between_processes(const PairFacts& facts) {
    return !facts.same_process;
}
inline bool if_named(const PairFacts&) {
    return false;
}
inline bool wherever_it_can(const PairFacts&) {
    return true;
}
inline std::function<std::string(const PairFacts&)> always(std::string words) {
    return [words](const PairFacts&) { return words; };
}
/// Binds a class of transports, which may take more arguments of its own.
template <class Kind, auto... more>
std::unique_ptr<Transport> bound_as(const BindContext& context, const std::vector<Pair>& pairs) {
    return std::make_unique<Kind>(context, pairs, more...);
}

/// A kind of transport: its name, which pairs it can carry, for which of them it is the better
/// choice than all that come later in the list, why, and how it is bound.
struct TransportKind {
    std::string name;
    MessageMemory memory = MessageMemory::none;
    AcceptedOption takes = AcceptedOption::nothing;
    bool sends_messages = false;  ///< calls MPI while it carries
    std::function<bool(const PairFacts&)> carries = between_processes;
    std::function<bool(const PairFacts&)> pays = if_named;
    std::function<std::string(const PairFacts&)> reason = nullptr;
    /// Of the pairs, those that send come first.
    std::function<std::unique_ptr<Transport>(const BindContext&, const std::vector<Pair>& pairs)>
        bind = nullptr;
    /// Where it is named, all processes bind it, also those without a pair: all_have_bound may then
    /// be collective.
    bool everyone = false;
    /// Why it cannot carry a pair between two processes, for those that cannot carry all.
    std::function<std::string(const PairFacts&)> why_not = nullptr;
};

/// Why the processes of a pair do not share what a kind needs: `why_near` where they are on one
/// node and nothing else is known.
std::string why_not_on_node(const PairFacts& facts, const char* why_near);

/// All kinds, in order of preference, and behind them those that the program adds. A new transport
/// is one file and one line in registry.cpp.
std::vector<TransportKind>& transport_kinds();
/// Their names, joined by ", ".
std::string transport_names();

/// The kind that carries a pair: that of the first of the names that can carry it. "auto" stands
/// for the first kind that can and pays. Pairs within a process are always copied by "self". Throws
/// unsupported.
const TransportKind& choose_transport(const PairFacts& facts, std::string_view names);

// Datatypes of a relation in the widest words that fit its elements.

/// As relation_datatype, of the longest words that elements at these places of `base` consist of:
/// MPICH copies single bytes where it is told bytes. Two sides may have words of different lengths;
/// between equal machines MPI compares numbers of bytes alone. In parts that lie at displacements
/// from `base`, for a sequence of them and others.
std::vector<mpi::PlacedDatatype> relation_in_words(const AddressRelation& relation, Side side,
                                                   const std::byte* base);

}  // namespace datamover::transport

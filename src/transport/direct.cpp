// SPDX-License-Identifier: BSD-3-Clause
// The transports that copy without messages: "self", "shared" and "read".
//
// "self" copies between two arrays of the process. Of a pair of processes one side copies: with
// "shared" straight between the two arrays, by the receiver out of the sender's array where that is
// shared, else by the sender into the receiver's; with "read" through the operating system, for
// long runs of user memory. The other side raises `go` when its array may be accessed; the copying
// side raises `done` when it has finished. No message, no barrier.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"
#include "memory/process_memory.hpp"
#include "plan/part_chunks.hpp"
#include "transport.hpp"

namespace datamover::transport {
namespace {

/// The signal lines of a peer, for as long as the peer keeps its side of the mover.
class PeerLines {
public:
    explicit PeerLines(const BindingLine& line)
        : line_(&line), binding_(line.number.load(std::memory_order_acquire)) {}

    /// Throws peer_failed where the peer has given the lines back.
    void require(std::int64_t peer) const {
        if (line_->number.load(std::memory_order_acquire) == binding_) return;
        throw make_error(ErrorCode::peer_failed, "process ", peer,
                         " has freed its side of the mover, or gave it up");
    }

private:
    const BindingLine* line_;
    std::uint64_t binding_;
};

using memory::ProcessCopy;

/// A copy by the system, and what is done with the buffer before (sending) or after it (receiving).
struct Step {
    ProcessCopy transfer;
    std::size_t chunk = 0;
};

/// What this process copies between its arrays and those of a peer.
struct Copy {
    std::int64_t peer = 0;
    bool sends = false;
    PairProgram program;      ///< between the arrays of both, or the own arrays and a buffer
    std::vector<Step> steps;  ///< of copies by the system
    bool direct = false;      ///< in one step, without a buffer
};

/// A transport in which one side of each pair does all the work. How a copy is carried out, the
/// derived class knows.
class OneSided : public Transport {
public:
    void announce() override {
        ++round_;
        for (const CopyTurn& copy : turns_) copy.theirs.require(copy.peer);
        for (const Offer& offer : offers_) {
            offer.theirs.require(offer.peer);
            offer.go->store(round_, std::memory_order_release);
        }
    }

    void start() override {
        for (CopyTurn& copy : turns_) copy.pending = true;
        pending_ = turns_.size();
        progress();
    }

    Progress progress() override {
        Progress made = Progress::none;
        if (pending_ > 0) {
            for (std::size_t i = 0; i < turns_.size(); ++i) {
                CopyTurn& c = turns_[i];
                if (!c.pending || c.go->load(std::memory_order_acquire) < round_) continue;
                run(copies_[i]);
                // What was read of a peer that gave up meanwhile may be something else by now.
                std::atomic_thread_fence(std::memory_order_acquire);
                c.theirs.require(c.peer);
                c.done->store(round_, std::memory_order_release);
                c.pending = false;
                --pending_;
                made = Progress::some;
            }
            if (pending_ > 0) return made;
        }
        for (const Offer& offer : offers_)
            if (offer.done->load(std::memory_order_acquire) < round_) return made;
        return Progress::complete;
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers;
        for (const CopyTurn& copy : turns_)
            if (copy.pending) peers.push_back(copy.peer);
        for (const Offer& offer : offers_)
            if (offer.done->load(std::memory_order_acquire) < round_) peers.push_back(offer.peer);
        return peers;
    }

    void report(std::vector<MoverPair>& lines) const override {
        for (const Copy& copy : copies_) lines.push_back(copy_line(copy));
        for (const Offer& o : offers_)
            lines.push_back(
                {o.peer, o.sends, name_, "", o.elems, o.bytes, "", 0, "copied by the peer"});
    }

protected:
    explicit OneSided(const char* name) : name_(name) {}

    /// Carries out a copy whose peer has begun.
    virtual void run(const Copy& copy) const = 0;
    virtual MoverPair copy_line(const Copy& copy) const {
        return pair_line(copy.peer, copy.sends, name_, copy.program);
    }

    /// Adds pairs: of each those arrays that the receiver copies, and those that the sender copies.
    /// `prepare` has this process's copies of arrays ready.
    template <class ReceiverCopies, class Prepare>
    void add_pairs(const BindContext& context, const std::vector<Pair>& pairs,
                   ReceiverCopies&& receiver_copies, Prepare&& prepare) {
        for (const Pair& pair : pairs)
            for (const bool by_receiver : {true, false}) {
                Pair some{pair.peer, pair.direction, {}};
                for (const PairShare& share : pair.shares)
                    if (receiver_copies(share.facts) == by_receiver) some.shares.push_back(share);
                if (some.shares.empty() || !add_pair(context, some, by_receiver)) continue;
                Copy copy;
                copy.peer = pair.peer;
                copy.sends = pair.sends();
                prepare(some, copy);
                copies_.push_back(std::move(copy));
            }
    }

private:
    /// True: this process copies, else the peer does.
    bool add_pair(const BindContext& context, const Pair& pair, bool receiver_copies) {
        SignalLine& mine = context.own_signal_line(pair.peer);
        SignalLine& theirs = context.peer_signal_line(pair.peer);
        const PeerLines lines(context.peer_binding_line(pair.peer));
        const Direction here = pair.direction;
        const Direction there = pair.sends() ? incoming : outgoing;
        if (receiver_copies != pair.sends()) {
            turns_.push_back({pair.peer, lines, &mine.go[here], &theirs.done[there]});
            return true;
        }
        offers_.push_back({pair.peer, lines, pair.sends(), pair.elems(),
                           context.message_bytes(pair), &theirs.go[there], &mine.done[here]});
        return false;
    }

    /// A pair in which this process copies.
    struct CopyTurn {
        std::int64_t peer = 0;
        PeerLines theirs;
        std::atomic<std::uint64_t>* go = nullptr;    ///< own line: the peer has begun
        std::atomic<std::uint64_t>* done = nullptr;  ///< the peer's line: written when copied
        bool pending = false;
    };
    /// A pair in which the other process copies.
    struct Offer {
        std::int64_t peer = 0;
        PeerLines theirs;
        bool sends = false;
        std::int64_t elems = 0, bytes = 0;
        std::atomic<std::uint64_t>* go = nullptr;    ///< the peer's line: written at the start
        std::atomic<std::uint64_t>* done = nullptr;  ///< own line: the peer has copied
    };

    const char* name_;
    std::vector<CopyTurn> turns_;
    std::vector<Copy> copies_;  ///< of these turns
    std::vector<Offer> offers_;
    std::uint64_t round_ = 0;
    std::size_t pending_ = 0;
};

class SelfTransport final : public Transport {
public:
    SelfTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : rank_(context.group->rank()) {
        for (const Pair& pair : pairs)
            if (!pair.sends()) program_ = context.copy_program(pair);
    }

    void start() override { program_.copy(); }
    Progress progress() override { return Progress::complete; }
    std::vector<std::int64_t> waiting_for() const override { return {}; }
    void report(std::vector<MoverPair>& lines) const override {
        lines.push_back(pair_line(rank_, true, "self", program_));
    }

private:
    std::int64_t rank_;
    PairProgram program_;
};

class SharedTransport final : public OneSided {
public:
    SharedTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : OneSided("shared") {
        add_pairs(
            context, pairs, [&](const PairFacts& facts) { return receiver_copies(facts, context); },
            [&](const Pair& pair, Copy& copy) { copy.program = context.copy_program(pair); });
    }

private:
    static bool receiver_copies(const PairFacts& facts, const BindContext& context) {
        if (!facts.shared.source) return false;
        if (!facts.shared.destination || !facts.plain_copy) return true;
        return context.options.receivers_copy.value_or(context.receivers_copy);
    }

    void run(const Copy& copy) const override { copy.program.copy(); }
};

/// From this mean run on the system may well go through both lists itself.
constexpr std::int64_t least_direct_run_bytes = 1024;
constexpr std::int64_t most_buffer_bytes = std::int64_t{256} << 10;

/// The copying side has the system read the other process's memory, or write to it: one copy, no
/// shared memory. Where runs are short, or elements are combined or converted, they go through a
/// buffer that fits the cache.
class ReadTransport final : public OneSided {
public:
    ReadTransport(const BindContext& context, const std::vector<Pair>& pairs) : OneSided("read") {
        buffer_bytes_ = std::min(context.chunk_bytes, most_buffer_bytes);
        for (const BoundMotion& motion : context.motions)
            buffer_bytes_ = std::max(buffer_bytes_, motion.array.source->elem_bytes);
        add_pairs(
            context, pairs, [&](const PairFacts& facts) { return receiver_copies(facts, context); },
            [&](const Pair& pair, Copy& copy) { prepare(context, pair, copy); });
    }

    std::int64_t extra_bytes() const override { return buffer_ ? buffer_->bytes : 0; }

private:
    void run(const Copy& c) const override {
        for (const Step& step : c.steps) {
            if (c.sends && !c.direct) c.program.pack(step.chunk, buffer_->data);
            step.transfer.run();
            if (!c.sends && !c.direct) c.program.unpack(step.chunk, buffer_->data);
        }
    }

    MoverPair copy_line(const Copy& c) const override {
        MoverPair line = OneSided::copy_line(c);
        if (c.direct)
            line.kernel = concat("the system's copy, pieces: ", c.steps.front().transfer.pieces());
        line.chunks = static_cast<std::int64_t>(c.steps.size());
        return line;
    }

    static bool receiver_copies(const PairFacts& facts, const BindContext& context) {
        if (!facts.plain_copy) return facts.receiver_reads;
        return context.options.receivers_copy.value_or(facts.receiver_reads);
    }

    void prepare(const BindContext& context, const Pair& pair, Copy& copy) {
        copy.direct = std::ranges::all_of(pair.shares, [](const PairShare& share) {
            return share.facts.plain_copy && share.facts.direct_run_bytes >= least_direct_run_bytes;
        });
        if (copy.direct)
            add_direct_step(context, pair, copy);
        else
            add_steps(context, pair, copy);
    }

    static ProcessCopy::Direction direction(const Copy& copy) {
        return copy.sends ? ProcessCopy::Direction::write : ProcessCopy::Direction::read;
    }

    /// What goes between a peer and this process, in the order of the peer's memory, so that its
    /// runs are whole. `parts` holds the plans' parts in that order.
    static std::vector<ArrayMotion> motions_along(const BindContext& context, const Pair& pair,
                                                  Side far, std::vector<PairPart>& parts) {
        std::vector<ArrayMotion> motions =
            context.motions_to_peer(pair, BindContext::Reach::by_address);
        parts.resize(motions.size());
        for (std::size_t i = 0; i < motions.size(); ++i) {
            parts[i] = plan::ordered_along(*motions[i].part, *motions[i].side[far].memory, far);
            motions[i].part = &parts[i];
            motions[i].order = plan::MessageOrder::row_major;
        }
        return motions;
    }

    static void add_direct_step(const BindContext& context, const Pair& pair, Copy& copy) {
        const Side far = copy.sends ? Side::destination : Side::source;
        std::vector<PairPart> parts;
        const std::vector<ArrayMotion> motions = motions_along(context, pair, far, parts);
        copy.program = PairProgram::for_copies(motions);
        copy.steps.push_back(
            {ProcessCopy(context.node->peer(pair.peer).pid, direction(copy),
                         copy.program.copied_pieces(other(far)), copy.program.copied_pieces(far)),
             0});
    }

    /// Chunk by chunk through the buffer, which holds elements as the source has them.
    void add_steps(const BindContext& context, const Pair& pair, Copy& copy) {
        const Side far = copy.sends ? Side::destination : Side::source;
        std::vector<PairPart> parts;
        std::vector<ArrayMotion> near = motions_along(context, pair, far, parts);
        std::vector<ArrayMotion> there = near;
        for (std::size_t i = 0; i < near.size(); ++i) {
            const auto& source = near[i].side.source;
            const plan::RelationSide buffer{nullptr, nullptr, source.elem_bytes, source.rank};
            near[i].side[far] = buffer;
            there[i].side[other(far)] = buffer;
            there[i].update = {};
        }
        ChunkRules rules{buffer_bytes_, plan::ChunkForm::ranges, false};
        copy.program = PairProgram::for_messages(near, rules);
        rules.runs = false;
        const PairProgram far_program = PairProgram::for_messages(there, rules);
        if (!buffer_) buffer_ = memory::SegmentPool::allocate_private(buffer_bytes_);
        for (std::size_t chunk = 0; chunk < copy.program.chunks(); ++chunk) {
            const auto bytes = static_cast<std::size_t>(copy.program.chunk_bytes(chunk));
            copy.steps.push_back(
                {ProcessCopy(context.node->peer(pair.peer).pid, direction(copy),
                             {MemoryPiece{buffer_->data, bytes}}, far_program.pieces(chunk)),
                 chunk});
        }
    }

    std::int64_t buffer_bytes_ = 0;
    memory::AllocationPtr buffer_;  ///< one chunk at a time
};

}  // namespace

extern const TransportKind self_kind;
const TransportKind self_kind{
    .name = "self",
    .carries = [](const PairFacts& facts) { return facts.same_process; },
    .pays = wherever_it_can,
    .reason = always("within the process"),
    .bind = bound_as<SelfTransport>,
    .why_not = always("they are two processes"),
};

extern const TransportKind shared_kind;
const TransportKind shared_kind{
    .name = "shared",
    .takes = AcceptedOption::who_copies,
    .carries =
        [](const PairFacts& facts) {
            return facts.same_node && !facts.same_process && facts.in_one_copy();
        },
    .pays = [](const PairFacts& facts) { return !facts.small_ghost_exchange || !facts.slots; },
    .reason =
        [](const PairFacts& facts) {
            return std::string(facts.shared.source ? "the source array is in shared memory"
                                                   : "the destination array is in shared memory") +
                   facts.rewriting.text();
        },
    .bind = bound_as<SharedTransport>,
    .why_not =
        [](const PairFacts& facts) {
            return why_not_on_node(facts, facts.shared.destination
                                              ? "the destination array alone is in shared memory, "
                                                "and elements are combined or converted"
                                              : "neither array is in memory that both can reach");
        },
};

extern const TransportKind read_kind;
const TransportKind read_kind{
    .name = "read",
    .memory = MessageMemory::buffers,
    .takes = AcceptedOption::who_copies,
    .carries = [](const PairFacts& facts) { return facts.readable && !facts.same_process; },
    .pays =
        [](const PairFacts& facts) {
            return facts.plain_copy && facts.balanced && facts.reading.direct_pays();
        },
    .reason =
        [](const PairFacts& facts) {
            return concat("runs of ", facts.direct_run_bytes, " bytes on both sides",
                          facts.reading.text());
        },
    .bind = bound_as<ReadTransport>,
    .why_not =
        [](const PairFacts& facts) {
            return why_not_on_node(facts, "processes do not read each other's memory here");
        },
};

}  // namespace datamover::transport

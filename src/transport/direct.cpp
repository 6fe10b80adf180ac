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
#include <optional>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"
#include "memory/process_memory.hpp"
#include "plan/part_chunks.hpp"
#include "transport.hpp"

namespace datamover::transport {
namespace {

using memory::ProcessCopy;

/// A copy by the system, and what is done with the buffer before (sending) or after it (receiving).
struct Step {
    ProcessCopy transfer;
    std::size_t chunk = 0;
};

/// One direction of a pair, of those arrays that the receiver copies, or the sender.
struct Lane {
    std::int64_t peer = 0;
    bool sends = false;
    bool copies = false;  ///< this process does, else the peer
    bool pending = false;
    PeerBinding theirs;
    /// In this process's line: the peer has begun, or has copied.
    const std::atomic<std::uint64_t>* awaited = nullptr;
    /// In the peer's line: this process has copied, or has begun.
    std::atomic<std::uint64_t>* told = nullptr;
    // Where this process copies.
    PairProgram program{};      ///< between the arrays of both, or the own arrays and a buffer
    std::vector<Step> steps{};  ///< of copies by the system
    bool direct = true;         ///< in one step, without a buffer
};

class SelfTransport final : public Transport {
public:
    SelfTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : program_(PairProgram::for_copies(
              context.motions_to_peer(pairs.back(), BindContext::Reach::mapped))) {
        add_line(context, pairs.front(), program_);
    }

    void start() override { program_.copy(); }
    Progress progress() override { return Progress::complete; }

private:
    PairProgram program_;
};

/// From this mean run on the system may well go through both lists itself.
constexpr std::int64_t least_direct_run_bytes = 1024;
constexpr std::int64_t most_buffer_bytes = std::int64_t{256} << 10;

/// A transport in which one side of each pair does all the work. By the system (`reads`) the
/// copying side has it read the other process's memory, or write to it: one copy, no shared memory.
/// Where runs are short, or elements are combined or converted, they then go through a buffer that
/// fits the cache.
class DirectTransport final : public Transport {
public:
    DirectTransport(const BindContext& context, const std::vector<Pair>& pairs, bool reads)
        : reads_(reads), buffer_bytes_(std::min(context.chunk_bytes, most_buffer_bytes)) {
        for (const BoundMotion& motion : context.motions)
            buffer_bytes_ = std::max(buffer_bytes_, motion.array.source->elem_bytes);
        for (const Pair& pair : pairs)
            for (const bool by_receiver : {true, false}) {
                Pair some{pair.peer, pair.direction, {}, pair.why};
                for (const PairShare& share : pair.shares)
                    if (receiver_copies(share.facts, context) == by_receiver)
                        some.shares.push_back(share);
                if (!some.shares.empty()) add(context, some, by_receiver != pair.sends());
            }
    }

    void announce() override {
        ++round_;
        for (const Lane& lane : lanes_) {
            lane.theirs.require(lane.peer);
            if (!lane.copies) lane.told->store(round_, std::memory_order_release);
        }
    }

    void start() override {
        for (Lane& lane : lanes_) lane.pending = true;
        pending_ = lanes_.size();
        progress();
    }

    Progress progress() override {
        const std::size_t before = pending_;
        for (Lane& lane : lanes_) {
            if (!lane.pending || lane.awaited->load(std::memory_order_acquire) < round_) continue;
            if (lane.copies) copy(lane);
            lane.pending = false;
            --pending_;
        }
        if (pending_ == 0) return Progress::complete;
        return pending_ < before ? Progress::some : Progress::none;
    }

private:
    bool waits_for(std::size_t i) const override { return lanes_[i].pending; }

    bool receiver_copies(const PairFacts& facts, const BindContext& context) const {
        const std::optional<bool>& wanted = context.options.receivers_copy;
        if (reads_)
            return facts.plain_copy ? wanted.value_or(facts.receiver_reads) : facts.receiver_reads;
        if (!facts.shared.source) return false;
        if (!facts.shared.destination || !facts.plain_copy) return true;
        return wanted.value_or(context.receivers_copy);
    }

    void add(const BindContext& context, const Pair& pair, bool copies) {
        SignalLine& mine = context.own_signal_line(pair.peer);
        SignalLine& theirs = context.peer_signal_line(pair.peer);
        const Direction here = pair.direction;
        const Direction there = pair.sends() ? incoming : outgoing;
        Lane lane{.peer = pair.peer,
                  .sends = pair.sends(),
                  .copies = copies,
                  .theirs = PeerBinding(binding_line(context.node->signals(pair.peer)).number),
                  .awaited = copies ? &mine.go[here] : &mine.done[here],
                  .told = copies ? &theirs.done[there] : &theirs.go[there]};
        if (copies) prepare(context, pair, lane);
        MoverPair& line = add_line(context, pair, lane.program);
        if (!copies) {
            line.elems = pair.elems();
            line.bytes = context.message_bytes(pair);
            line.kernel = "copied by the peer";
        } else if (reads_) {
            if (lane.direct)
                line.kernel =
                    concat("the system's copy, pieces: ", lane.steps.front().transfer.pieces());
            line.chunks = std::ssize(lane.steps);
        }
        lanes_.push_back(std::move(lane));
    }

    void copy(const Lane& lane) const {
        if (!reads_) lane.program.copy();
        for (const Step& step : lane.steps) {
            if (lane.sends && !lane.direct) lane.program.pack(step.chunk, buffer_->data);
            step.transfer.run();
            if (!lane.sends && !lane.direct) lane.program.unpack(step.chunk, buffer_->data);
        }
        // What was read of a peer that gave up meanwhile may be something else by now.
        std::atomic_thread_fence(std::memory_order_acquire);
        lane.theirs.require(lane.peer);
        lane.told->store(round_, std::memory_order_release);
    }

    void prepare(const BindContext& context, const Pair& pair, Lane& lane) {
        if (!reads_) {
            lane.program =
                PairProgram::for_copies(context.motions_to_peer(pair, BindContext::Reach::mapped));
            return;
        }
        lane.direct = std::ranges::all_of(pair.shares, [](const PairShare& share) {
            return share.facts.plain_copy && share.facts.direct_run_bytes >= least_direct_run_bytes;
        });
        const Side far = lane.sends ? Side::destination : Side::source;
        const auto direction =
            lane.sends ? ProcessCopy::Direction::write : ProcessCopy::Direction::read;
        const std::int64_t pid = context.node->peer(pair.peer).pid;
        std::vector<PairPart> parts;
        std::vector<ArrayMotion> near = motions_along(context, pair, far, parts);
        if (lane.direct) {
            lane.program = PairProgram::for_copies(near);
            lane.steps.push_back(
                {ProcessCopy(pid, direction, lane.program.copied_pieces(other(far)),
                             lane.program.copied_pieces(far)),
                 0});
            return;
        }
        // Chunk by chunk through the buffer, which holds elements as the source has them.
        std::vector<ArrayMotion> there = near;
        for (std::size_t i = 0; i < near.size(); ++i) {
            const auto& source = near[i].side.source;
            const plan::RelationSide buffer{nullptr, nullptr, source.elem_bytes, source.rank};
            near[i].side[far] = buffer;
            there[i].side[other(far)] = buffer;
            there[i].update = {};
        }
        ChunkRules rules{buffer_bytes_, plan::ChunkForm::ranges, false};
        lane.program = PairProgram::for_messages(near, rules);
        rules.runs = false;
        const PairProgram far_program = PairProgram::for_messages(there, rules);
        if (!buffer_) buffer_ = memory::SegmentPool::allocate_private(buffer_bytes_);
        extra_bytes_ = buffer_->bytes;
        for (std::size_t chunk = 0; chunk < lane.program.chunks(); ++chunk) {
            const auto bytes = static_cast<std::size_t>(lane.program.chunk_bytes(chunk));
            lane.steps.push_back({ProcessCopy(pid, direction, {MemoryPiece{buffer_->data, bytes}},
                                              far_program.pieces(chunk)),
                                  chunk});
        }
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

    bool reads_;  ///< by the system, else through mapped memory
    std::int64_t buffer_bytes_;
    memory::AllocationPtr buffer_;  ///< one chunk at a time
    std::vector<Lane> lanes_;
    std::uint64_t round_ = 0;
    std::size_t pending_ = 0;
};

}  // namespace

extern const TransportKind self_kind{
    .name = "self",
    .carries = [](const PairFacts& facts) { return facts.same_process; },
    .pays = wherever_it_can,
    .reason = always("within the process"),
    .bind = bound_as<SelfTransport>,
    .why_not = always("they are two processes"),
};

extern const TransportKind shared_kind{
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
    .bind = bound_as<DirectTransport, false>,
    .why_not =
        [](const PairFacts& facts) {
            return why_not_on_node(facts, facts.shared.destination
                                              ? "the destination array alone is in shared memory, "
                                                "and elements are combined or converted"
                                              : "neither array is in memory that both can reach");
        },
};

extern const TransportKind read_kind{
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
    .bind = bound_as<DirectTransport, true>,
    .why_not =
        [](const PairFacts& facts) {
            return why_not_on_node(facts, "processes do not read each other's memory here");
        },
};

}  // namespace datamover::transport

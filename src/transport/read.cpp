// SPDX-License-Identifier: BSD-3-Clause
// The transport "read": one copy through the operating system, for long runs of user memory. The
// copying side has the system read the other process's memory, or write to it: one copy, no shared
// memory.
//
// Where runs are short, or elements are combined or converted, they go through a buffer that fits
// the cache.
#include <algorithm>
#include <utility>

#include "geometry/make_error.hpp"
#include "memory/process_memory.hpp"
#include "one_sided.hpp"
#include "plan/part_order.hpp"

namespace datamover::transport {
namespace {

using memory::ProcessCopy;

/// From this mean run on the system may well go through both lists itself.
constexpr std::int64_t least_direct_run_bytes = 1024;
constexpr std::int64_t most_buffer_bytes = std::int64_t{256} << 10;

/// A copy by the system, and what is done with the buffer before (sending) or after it (receiving).
struct Step {
    ProcessCopy transfer;
    std::size_t chunk = 0;
};

struct Copy {
    std::int64_t peer = 0;
    bool sends = false, direct = false;
    PairProgram program;  ///< between the own arrays and the buffer
    std::vector<Step> steps;
};

class ReadTransport final : public OneSided {
public:
    ReadTransport(const BindContext& context, const std::vector<Pair>& pairs) : OneSided("read") {
        buffer_bytes_ = std::min(context.chunk_bytes, most_buffer_bytes);
        for (const BoundMotion& motion : context.motions)
            buffer_bytes_ = std::max(buffer_bytes_, motion.array.source->elem_bytes);
        for (const Pair& pair : pairs)
            for (const bool by_receiver : {true, false}) add(context, pair, by_receiver);
    }

    std::int64_t extra_bytes() const override { return buffer_ ? buffer_->bytes : 0; }

private:
    void copy(std::size_t i) const override {
        const Copy& c = copies_[i];
        for (const Step& step : c.steps) {
            if (c.sends && !c.direct) c.program.pack(step.chunk, buffer_->data);
            step.transfer.run();
            if (!c.sends && !c.direct) c.program.unpack(step.chunk, buffer_->data);
        }
    }

    MoverPair copy_line(std::size_t i) const override {
        const Copy& c = copies_[i];
        MoverPair line = pair_line(c.peer, c.sends, "read", c.program);
        if (c.direct)
            line.kernel = concat("the system's copy, pieces: ", c.steps.front().transfer.pieces());
        line.chunks = static_cast<std::int64_t>(c.steps.size());
        return line;
    }

    static bool receiver_copies(const PairFacts& facts, const BindContext& context) {
        if (!facts.plain_copy) return facts.receiver_reads;
        return context.options.receivers_copy.value_or(facts.receiver_reads);
    }

    /// Adds those arrays of a pair that the receiver reads, or those that the sender writes.
    void add(const BindContext& context, const Pair& pair, bool by_receiver) {
        Pair some{pair.peer, pair.direction, {}};
        for (const PairShare& share : pair.shares)
            if (receiver_copies(share.facts, context) == by_receiver) some.shares.push_back(share);
        if (some.shares.empty() || !add_pair(context, some, by_receiver)) return;
        Copy copy;
        copy.peer = pair.peer;
        copy.sends = pair.sends();
        copy.direct = std::ranges::all_of(some.shares, [](const PairShare& share) {
            return share.facts.plain_copy && share.facts.direct_run_bytes >= least_direct_run_bytes;
        });
        if (copy.direct)
            add_direct_step(context, some, copy);
        else
            add_steps(context, some, copy);
        copies_.push_back(std::move(copy));
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

    std::vector<Copy> copies_;
    std::int64_t buffer_bytes_ = 0;
    memory::AllocationPtr buffer_;  ///< one chunk at a time
};

}  // namespace

extern const TransportKind read_kind;
const TransportKind read_kind{
    "read",
    MessageMemory::buffers,
    AcceptedOption::who_copies,
    false,
    [](const PairFacts& facts) { return facts.readable && !facts.same_process; },
    [](const PairFacts& facts) {
        return facts.plain_copy && facts.balanced && facts.reading.direct_pays();
    },
    [](const PairFacts& facts) {
        return concat("runs of ", facts.direct_run_bytes, " bytes on both sides",
                      facts.reading.text());
    },
    [](const BindContext& context, const std::vector<Pair>& pairs) -> std::unique_ptr<Transport> {
        return std::make_unique<ReadTransport>(context, pairs);
    },
    false,
    [](const PairFacts& facts) {
        return why_not_on_node(facts, "processes do not read each other's memory here");
    },
};

}  // namespace datamover::transport

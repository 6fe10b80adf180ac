// SPDX-License-Identifier: BSD-3-Clause
// How does data move between processes of a node whose arrays neither can reach? The sender packs
// into shared memory of the library, the receiver unpacks from there, chunk by chunk, both at once.
//
// The memory is the receiver's, so a sender is through when it has packed, and may even free its
// mover before the receiver has begun. Chunks are so small that they are unpacked out of the cache.
#include <utility>

#include "plan/part_chunks.hpp"
#include "staging_lane.hpp"
#include "transport.hpp"

namespace datamover::transport {
namespace {

/// A chunk ready to run: which kernel, and where in the array.
struct Chunk {
    std::size_t shape = 0;
    std::int64_t shift_bytes = 0;
};

/// One direction of one pair. Numbers of chunks count on from round to round.
struct Flow {
    std::int64_t peer = 0;
    StagingLane lane;
    AddressRelation relation;
    std::vector<CopyKernel> kernels;  ///< per shape
    std::vector<Chunk> chunks;
    std::size_t next = 0;     ///< chunk of this round to be moved
    std::uint64_t moved = 0;  ///< chunks moved in all rounds
    std::uint64_t seen = 0;   ///< of the other side's chunks, at the last look
    bool complete() const { return next == chunks.size(); }
};

class StagedTransport final : public Transport {
public:
    StagedTransport(const BindContext& context, const std::vector<Leg>& sends,
                    const std::vector<Leg>& receives)
        : group_(context.group),
          source_(context.source->base),
          destination_(context.destination->base) {
        for (const Leg& leg : sends) sends_.push_back(outgoing_flow(context, leg));
        for (const Leg& leg : receives) receives_.push_back(incoming_flow(context, leg));
    }

    /// After a round that failed, a sender may still be filling slots.
    ~StagedTransport() override {
        for (const Flow& flow : receives_)
            if (!flow.complete()) group_->abandon(flow.lane.memory);
    }

    void start() override {
        for (Flow& flow : sends_) flow.next = 0;
        for (Flow& flow : receives_) flow.next = 0;
        progress();
    }

    bool progress() override {
        bool moved = true, complete = false;
        while (moved && !complete) {
            moved = false;
            complete = true;
            for (Flow& flow : sends_) {
                moved |= pack_one(flow);
                complete &= flow.complete();
            }
            for (Flow& flow : receives_) {
                moved |= unpack_one(flow);
                complete &= flow.complete();
            }
        }
        return complete;
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers;
        for (const auto* flows : {&sends_, &receives_})
            for (const Flow& flow : *flows)
                if (!flow.complete()) peers.push_back(flow.peer);
        return peers;
    }

    void report(std::vector<MoverLeg>& lines) const override {
        for (const auto* flows : {&sends_, &receives_})
            for (const Flow& f : *flows) {
                lines.push_back(leg_line(f.peer, flows == &sends_, "staged", f.relation,
                                         f.kernels.empty() ? CopyKernel() : f.kernels.front()));
                lines.back().chunks = static_cast<std::int64_t>(f.chunks.size());
            }
    }

    std::int64_t extra_bytes() const override {
        std::int64_t bytes = 0;
        for (const Flow& flow : receives_) bytes += flow.lane.bytes();
        return bytes;
    }

private:
    Flow outgoing_flow(const BindContext& context, const Leg& leg) const {
        const auto side = context.source_side(), message = context.message_side();
        Flow flow = flow_of(context, leg, context.lanes_out);
        flow.relation = plan::compile(*leg.part, side, message, context.order);
        const auto cut = cut_for(flow.lane, *leg.part, context);
        for (const PairPart& shape : cut.shapes)
            flow.kernels.push_back(plan::compile(shape, side, message, context.order)
                                       .kernel(context.packing_update()));
        for (const plan::PartChunk& c : cut.chunks)
            flow.chunks.push_back({c.shape, plan::source_shift_bytes(cut, c, *side.memory)});
        flow.next = flow.chunks.size();
        return flow;
    }

    Flow incoming_flow(const BindContext& context, const Leg& leg) const {
        const auto side = context.destination_side(), message = context.message_side();
        Flow flow = flow_of(context, leg, context.lanes_in);
        flow.relation = plan::compile(*leg.part, message, side, context.order);
        const auto cut = cut_for(flow.lane, *leg.part, context);
        for (const PairPart& shape : cut.shapes)
            flow.kernels.push_back(plan::compile(shape, message, side, context.order)
                                       .kernel(context.unpacking_update()));
        for (const plan::PartChunk& c : cut.chunks)
            flow.chunks.push_back({c.shape, plan::destination_shift_bytes(cut, c, *side.memory)});
        flow.next = flow.chunks.size();
        return flow;
    }

    static Flow flow_of(const BindContext& context, const Leg& leg,
                        const std::vector<StagingLane>& lanes) {
        Flow flow;
        flow.peer = leg.peer;
        flow.lane = lanes[static_cast<std::size_t>(context.group->node_position(leg.peer))];
        return flow;
    }

    static plan::ChunkedPart cut_for(const StagingLane& lane, const PairPart& part,
                                     const BindContext& context) {
        return plan::cut_into_chunks(part, lane.slot_bytes / context.wire().bytes, context.order,
                                     plan::ChunkForm::tiles);
    }

    /// Packs the next chunk if a slot is free.
    bool pack_one(Flow& flow) const {
        if (flow.complete()) return false;
        const auto slots = static_cast<std::uint64_t>(flow.lane.slots);
        if (flow.moved - flow.seen >= slots) {
            flow.seen = flow.lane.drained().load(std::memory_order_acquire);
            if (flow.moved - flow.seen >= slots) return false;
        }
        const Chunk& chunk = flow.chunks[flow.next];
        flow.kernels[chunk.shape](source_ + chunk.shift_bytes, flow.lane.slot(flow.moved));
        ++flow.next;
        flow.lane.filled().store(++flow.moved, std::memory_order_release);
        return true;
    }

    /// Unpacks the next chunk if it has come.
    bool unpack_one(Flow& flow) const {
        if (flow.complete()) return false;
        if (flow.seen == flow.moved) {
            flow.seen = flow.lane.filled().load(std::memory_order_acquire);
            if (flow.seen == flow.moved) return false;
        }
        const Chunk& chunk = flow.chunks[flow.next];
        flow.kernels[chunk.shape](flow.lane.slot(flow.moved), destination_ + chunk.shift_bytes);
        ++flow.next;
        flow.lane.drained().store(++flow.moved, std::memory_order_release);
        return true;
    }

    mpi::ProcessGroupPtr group_;
    const std::byte* source_;
    std::byte* destination_;
    std::vector<Flow> sends_, receives_;
};

}  // namespace

extern const TransportKind staged_kind;
const TransportKind staged_kind{
    "staged",
    [](const PairFacts& facts) { return facts.staged; },
    [](const PairFacts&) { return true; },
    [](const BindContext& context, std::vector<Leg> sends,
       std::vector<Leg> receives) -> std::unique_ptr<Transport> {
        return std::make_unique<StagedTransport>(context, sends, receives);
    },
};

}  // namespace datamover::transport

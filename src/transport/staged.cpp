// SPDX-License-Identifier: BSD-3-Clause
// How does data move between processes of a node whose arrays neither can reach? The sender packs
// into slots of shared memory, the receiver unpacks from there, chunk by chunk, both at once.
//
// The memory is the receiver's, so a sender is through when it has packed, and may even free its
// mover before the receiver has begun. Chunks are so small that they are unpacked out of the cache.
#include <string>
#include <utility>

#include "datamover/error.hpp"
#include "slot_ring.hpp"
#include "transport.hpp"

namespace datamover::transport {
namespace {

/// One direction of one pair. Numbers of chunks count on from round to round.
struct ChunkStream {
    std::int64_t peer = 0;
    SlotRing ring;
    std::uint64_t binding = 0;  ///< the receiver's number of it
    PairProgram program;
    std::size_t next = 0;     ///< chunk of this round to be moved
    std::uint64_t moved = 0;  ///< chunks moved in all rounds
    std::uint64_t seen = 0;   ///< of the other side's chunks, at the last look
    bool complete() const { return next == program.chunks(); }
};

class StagedTransport final : public Transport {
public:
    StagedTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : group_(context.group) {
        for (const Pair& pair : pairs) {
            const auto& rings = pair.sends() ? context.rings_out : context.rings_in;
            ChunkStream stream;
            stream.peer = pair.peer;
            stream.ring = rings[static_cast<std::size_t>(context.group->node_position(pair.peer))];
            stream.program =
                context.message_program(pair, {stream.ring.slot_bytes, plan::ChunkForm::tiles});
            stream.binding = stream.ring.binding().load(std::memory_order_acquire);
            stream.next = stream.program.chunks();
            (pair.sends() ? sends_ : receives_).push_back(std::move(stream));
        }
    }

    /// After a round that failed, a sender may still be filling slots.
    ~StagedTransport() override {
        for (const ChunkStream& stream : receives_)
            if (!stream.complete()) group_->abandon(stream.ring.memory);
    }

    void announce() override {
        for (const ChunkStream& stream : sends_)
            if (stream.ring.binding().load(std::memory_order_acquire) != stream.binding)
                throw Error(ErrorCode::peer_failed,
                            "process " + std::to_string(stream.peer) +
                                " has freed its side of the mover, or gave it up");
    }

    void start() override {
        for (ChunkStream& stream : sends_) stream.next = 0;
        for (ChunkStream& stream : receives_) stream.next = 0;
        progress();
    }

    Progress progress() override {
        bool moved = true, complete = false, any = false;
        while (moved && !complete) {
            moved = false;
            complete = true;
            for (ChunkStream& stream : sends_) {
                moved |= pack_one(stream);
                complete &= stream.complete();
            }
            for (ChunkStream& stream : receives_) {
                moved |= unpack_one(stream);
                complete &= stream.complete();
            }
            any |= moved;
        }
        if (complete) return Progress::complete;
        return any ? Progress::some : Progress::none;
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers;
        for (const auto* streams : {&sends_, &receives_})
            for (const ChunkStream& stream : *streams)
                if (!stream.complete()) peers.push_back(stream.peer);
        return peers;
    }

    void report(std::vector<MoverPair>& lines) const override {
        for (const auto* streams : {&sends_, &receives_})
            for (const ChunkStream& s : *streams)
                lines.push_back(pair_line(s.peer, streams == &sends_, "staged", s.program));
    }

    std::int64_t extra_bytes() const override {
        std::int64_t bytes = 0;
        for (const ChunkStream& stream : receives_) bytes += stream.ring.bytes();
        return bytes;
    }

private:
    /// Packs the next chunk if a slot is free.
    static bool pack_one(ChunkStream& s) {
        if (s.complete()) return false;
        const auto slots = static_cast<std::uint64_t>(s.ring.slots);
        if (s.moved - s.seen >= slots) {
            s.seen = s.ring.drained().load(std::memory_order_acquire);
            if (s.moved - s.seen >= slots) return false;
        }
        s.program.pack(s.next++, s.ring.slot(s.moved));
        s.ring.filled().store(++s.moved, std::memory_order_release);
        return true;
    }

    /// Unpacks the next chunk if it has come.
    static bool unpack_one(ChunkStream& s) {
        if (s.complete()) return false;
        if (s.seen == s.moved) {
            s.seen = s.ring.filled().load(std::memory_order_acquire);
            if (s.seen == s.moved) return false;
        }
        s.program.unpack(s.next++, s.ring.slot(s.moved));
        s.ring.drained().store(++s.moved, std::memory_order_release);
        return true;
    }

    mpi::ProcessGroupPtr group_;
    std::vector<ChunkStream> sends_, receives_;
};

std::string reason(const PairFacts& facts) {
    if (!facts.readable) return "neither array can be reached";
    if (!facts.plain_copy) return "elements are combined or converted";
    if (!facts.balanced) return "both sides share the work of the busier one";
    if (facts.direct_run_bytes == 0) return "the two arrays run along different axes";
    return "runs of " + std::to_string(facts.direct_run_bytes) + " bytes are too short to be read";
}

}  // namespace

extern const TransportKind staged_kind;
const TransportKind staged_kind{
    "staged",
    MessageMemory::slots,
    false,
    [](const PairFacts& facts) { return facts.slots; },
    [](const PairFacts&) { return true; },
    reason,
    [](const BindContext& context, const std::vector<Pair>& pairs) -> std::unique_ptr<Transport> {
        return std::make_unique<StagedTransport>(context, pairs);
    },
};

}  // namespace datamover::transport

// SPDX-License-Identifier: BSD-3-Clause
// The transport "staged": through slots of shared memory, if neither process can access the
// other's array. The sender packs into slots of shared memory, the receiver unpacks from there,
// chunk by chunk, both at once.
//
// The memory is the receiver's, so a sender is through when it has packed, and may even free its
// mover before the receiver has begun. Chunks are so small that they are unpacked out of the cache.
// A message of a few pages goes into its slot around the caches: the other core still has the lines
// of the slot, and ordinary stores would wait for each of them.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"
#include "memory/cache_lines.hpp"
#include "memory/segment_pool.hpp"
#include "transport.hpp"

namespace datamover::transport {
namespace {

/// A message that is streamed is cut into pieces of this length, packed in the first cache.
constexpr std::int64_t piece_bytes = 4096;
/// Messages that are streamed (measured, docs/decisions/0020): shorter ones and longer ones lose
/// where the two cores share a cache, these do not; where they share none, all gain.
constexpr std::int64_t least_streamed_bytes = 4 << 10, most_streamed_bytes = 128 << 10;

/// One direction of one pair. What is handed over at once is a chunk or, where they are streamed,
/// all chunks of the message. Numbers of what was handed over count on from round to round.
struct SlotStream {
    std::int64_t peer = 0;
    bool sends = false;
    SlotRing ring;
    PeerBinding binding;  ///< the receiver's
    PairProgram program{};
    std::vector<std::int64_t> piece_at{};  ///< of what is streamed: where chunks are in the slot
    std::size_t next = 0;                  ///< in this round
    std::uint64_t moved = 0;               ///< in all rounds
    std::uint64_t seen = 0;                ///< by the other side, at the last look

    std::size_t hand_overs() const { return piece_at.empty() ? program.chunks() : 1; }
    bool complete() const { return next == hand_overs(); }

    void pack(std::byte* slot, std::byte* piece) const {
        if (piece_at.empty()) return program.pack(next, slot);
        for (std::size_t i = 0; i < piece_at.size(); ++i) {
            program.pack(i, piece);
            memory::streamed_copy(slot + piece_at[i], piece, program.chunk_bytes(i));
        }
        memory::end_streaming();
    }

    void unpack(const std::byte* slot) const {
        if (piece_at.empty()) return program.unpack(next, slot);
        for (std::size_t i = 0; i < piece_at.size(); ++i) program.unpack(i, slot + piece_at[i]);
    }

    /// Packs into the next slot if it is free, or unpacks from it if it is filled.
    bool advance(std::byte* piece) {
        if (complete()) return false;
        SlotRing::Count& theirs = sends ? ring.drained() : ring.filled();
        SlotRing::Count& mine = sends ? ring.filled() : ring.drained();
        const std::uint64_t most_ahead = sends ? static_cast<std::uint64_t>(ring.slots) : 0;
        if (moved - seen == most_ahead) {
            seen = theirs.load(std::memory_order_acquire);
            if (moved - seen == most_ahead) return false;
        }
        if (sends)
            pack(ring.slot(moved), piece);
        else
            unpack(ring.slot(moved));
        ++next;
        mine.store(++moved, std::memory_order_release);
        return true;
    }
};

/// Where the chunks of a message lie in a slot, each in lines of its own; nothing where they do not
/// fit.
std::vector<std::int64_t> places_in_slot(const PairProgram& program, const SlotRing& ring) {
    std::vector<std::int64_t> places;
    std::int64_t end = 0;
    for (std::size_t i = 0; i < program.chunks(); ++i) {
        places.push_back(end);
        end += memory::whole_lines(program.chunk_bytes(i));
    }
    if (end > ring.slot_bytes) places.clear();
    return places;
}

/// A slot has whole lines; the user may want less in it.
std::int64_t longest_chunk(const BindContext& context, const SlotRing& ring) {
    const std::int64_t named = context.options.chunk_bytes;
    return named > 0 ? std::min(named, ring.slot_bytes) : ring.slot_bytes;
}

class StagedTransport final : public Transport {
public:
    StagedTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : group_(context.group) {
        for (const Pair& pair : pairs) add(context, pair);
        std::int64_t most_piece_bytes = 0;
        for (const SlotStream& stream : streams_)
            if (stream.sends && !stream.piece_at.empty())
                most_piece_bytes = std::max(most_piece_bytes, stream.program.most_chunk_bytes());
        if (most_piece_bytes == 0) return;
        piece_ = memory::SegmentPool::allocate_private(most_piece_bytes);
        // Whole lines are stored in slots, also where a piece ends within one.
        std::memset(piece_->data, 0, static_cast<std::size_t>(piece_->bytes));
    }

    /// After a round that failed, a sender may still be filling slots.
    ~StagedTransport() override {
        for (const SlotStream& stream : streams_)
            if (!stream.sends && !stream.complete()) group_->abandon(stream.ring.memory);
    }

    void announce() override {
        for (const SlotStream& stream : streams_)
            if (stream.sends) stream.binding.require(stream.peer);
    }

    void start() override {
        for (SlotStream& stream : streams_) stream.next = 0;
        progress();
    }

    Progress progress() override {
        bool moved = true, complete = false, any = false;
        while (moved && !complete) {
            moved = false;
            complete = true;
            for (SlotStream& stream : streams_) {
                moved |= stream.advance(piece_ ? piece_->data : nullptr);
                complete &= stream.complete();
            }
            any |= moved;
        }
        if (complete) return Progress::complete;
        return any ? Progress::some : Progress::none;
    }

private:
    void add(const BindContext& context, const Pair& pair) {
        const auto& rings = pair.sends() ? context.rings_out : context.rings_in;
        const SlotRing& ring =
            rings[static_cast<std::size_t>(context.group->node().position(pair.peer))];
        SlotStream stream{pair.peer, pair.sends(), ring, PeerBinding(ring.binding())};
        const std::int64_t bytes = context.message_bytes(pair);
        if (bytes >= least_streamed_bytes && bytes <= most_streamed_bytes) {
            stream.program = context.message_program(pair, {piece_bytes});
            stream.piece_at = places_in_slot(stream.program, stream.ring);
        }
        if (stream.piece_at.empty())
            stream.program = context.message_program(
                pair, {longest_chunk(context, stream.ring), plan::ChunkForm::tiles});
        stream.next = stream.hand_overs();
        if (!stream.sends) extra_bytes_ += stream.ring.bytes();
        add_line(context, pair, stream.program);
        streams_.push_back(std::move(stream));
    }

    bool waits_for(std::size_t i) const override { return !streams_[i].complete(); }

    mpi::ProcessGroupPtr group_;
    std::vector<SlotStream> streams_;
    memory::AllocationPtr piece_;  ///< one at a time, on its way into a slot
};

std::string reason(const PairFacts& facts) {
    if (facts.small_ghost_exchange)
        return "little is exchanged in place, both ways" + facts.rewriting.text();
    if (!facts.readable) return "neither array can be reached";
    if (!facts.plain_copy) return "elements are combined or converted";
    if (!facts.balanced) return "both sides share the work of the busier one";
    if (facts.direct_run_bytes == 0) return "the two arrays run along different axes";
    return concat("runs of ", facts.direct_run_bytes, " bytes on both sides", facts.reading.text());
}

}  // namespace

extern const TransportKind staged_kind{
    .name = "staged",
    .memory = MessageMemory::slots,
    .takes = AcceptedOption::chunk_bytes,
    .carries = [](const PairFacts& facts) { return facts.slots; },
    .pays = wherever_it_can,
    .reason = reason,
    .bind = bound_as<StagedTransport>,
    .why_not =
        [](const PairFacts& facts) {
            return why_not_on_node(facts, "there is no shared memory for it");
        },
};

}  // namespace datamover::transport

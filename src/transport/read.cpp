// SPDX-License-Identifier: BSD-3-Clause
// How does data move between processes of a node whose runs of memory are long? The copying side
// has the system read the other process's memory, or write to it: one copy, no shared memory.
//
// Where runs are short, or elements are combined or converted, they stop over in a buffer that fits
// the cache.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "memory/process_memory.hpp"
#include "one_sided.hpp"
#include "plan/part_chunks.hpp"

namespace datamover::transport {
namespace {

using memory::ProcessCopy;

/// From this mean run on, on both sides, reading beats staging (measured; see docs/decisions).
constexpr std::int64_t least_paying_run_bytes = std::int64_t{8} << 10;
/// From this mean run on the system may well go through both lists itself.
constexpr std::int64_t least_direct_run_bytes = 1024;
constexpr std::int64_t stop_over_bytes = std::int64_t{256} << 10;

/// A system call, and what is done with the buffer before (sending) or after it (receiving).
struct Step {
    ProcessCopy transfer;
    std::size_t kernel = 0;
    std::int64_t shift_bytes = 0;  ///< in the own array
};

struct Copy {
    std::int64_t peer = 0;
    bool sends = false, direct = false;
    AddressRelation relation;
    std::vector<CopyKernel> kernels;
    std::vector<Step> steps;
};

/// The part with the axes of its products ordered as the far memory is: then runs there are whole.
PairPart ordered_along(PairPart part, const MemoryLayout& memory, bool of_source) {
    for (Piece& piece : part.pieces) {
        auto* product = std::get_if<ProductPiece>(&piece.content);
        const BlockMemory* block =
            memory.find(of_source ? piece.source_block : piece.destination_block);
        if (!product || !block) continue;
        const auto stride = [&](const PieceAxis& axis) {
            return std::abs(
                block->strides_bytes[of_source ? axis.source_dim : axis.destination_dim]);
        };
        std::stable_sort(
            product->axes.begin(), product->axes.end(),
            [&](const PieceAxis& a, const PieceAxis& b) { return stride(a) > stride(b); });
    }
    return part;
}

class ReadTransport final : public OneSided {
public:
    ReadTransport(const BindContext& context, const std::vector<Leg>& sends,
                  const std::vector<Leg>& receives)
        : OneSided(context, "read"),
          source_(context.source->base),
          destination_(context.destination->base) {
        const std::int64_t most = context.chunk_bytes > 0
                                      ? std::min(context.chunk_bytes, stop_over_bytes)
                                      : stop_over_bytes;
        buffer_bytes_ = std::max(most, context.source->elem_bytes);
        for (const Leg& leg : sends) add(context, leg, true);
        for (const Leg& leg : receives) add(context, leg, false);
    }

    std::int64_t extra_bytes() const override { return buffer_ ? buffer_->bytes : 0; }

private:
    void copy(std::size_t i) const override {
        const Copy& c = copies_[i];
        for (const Step& step : c.steps) {
            if (c.sends && !c.direct)
                c.kernels[step.kernel](source_ + step.shift_bytes, buffer_->data);
            step.transfer.run();
            if (!c.sends && !c.direct)
                c.kernels[step.kernel](buffer_->data, destination_ + step.shift_bytes);
        }
    }

    MoverLeg copy_line(std::size_t i) const override {
        const Copy& c = copies_[i];
        MoverLeg line = leg_line(c.peer, c.sends, "read", c.relation,
                                 c.kernels.empty() ? CopyKernel() : c.kernels.front());
        if (c.direct) line.kernel = "the system's copy";
        line.chunks = static_cast<std::int64_t>(c.steps.size());
        return line;
    }

    void add(const BindContext& context, const Leg& leg, bool sends) {
        if (!add_pair(context, leg, sends, leg.facts.receiver_reads)) return;
        const auto [from, to] = sides(context, leg, sends);
        const auto& far = sends ? to : from;
        const PairPart part = ordered_along(*leg.part, *far.memory, !sends);
        Copy copy;
        copy.peer = leg.peer;
        copy.sends = sends;
        copy.relation = plan::compile(part, from, to);
        copy.direct =
            context.update.is_plain_copy() && leg.facts.direct_run_bytes >= least_direct_run_bytes;
        if (copy.direct)
            add_direct_step(context, leg, copy);
        else
            add_steps(context, leg, part, copy);
        copies_.push_back(std::move(copy));
    }

    static std::byte* far_base(const BindContext& context, const Leg& leg, bool sends) {
        const NodePeer& peer = peer_of(context, leg);
        return sends ? peer.destination.address : peer.source.address;
    }

    void add_direct_step(const BindContext& context, const Leg& leg, Copy& copy) const {
        std::byte* far = far_base(context, leg, copy.sends);
        const auto& r = copy.relation;
        copy.steps.push_back(
            {copy.sends ? ProcessCopy(peer_of(context, leg).pid, ProcessCopy::Direction::write,
                                      r.source_pieces(source_), r.destination_pieces(far))
                        : ProcessCopy(peer_of(context, leg).pid, ProcessCopy::Direction::read,
                                      r.destination_pieces(destination_), r.source_pieces(far))});
    }

    /// Chunk by chunk through the buffer, which holds elements as the source has them.
    void add_steps(const BindContext& context, const Leg& leg, const PairPart& part, Copy& copy) {
        const auto [from, to] = sides(context, leg, copy.sends);
        const plan::RelationSide message{nullptr, nullptr, from.elem_bytes, from.rank};
        const auto cut =
            plan::cut_into_chunks(part, buffer_bytes_ / from.elem_bytes,
                                  plan::MessageOrder::row_major, plan::ChunkForm::ranges);
        std::vector<AddressRelation> far_relations;
        for (const PairPart& shape : cut.shapes) {
            const auto gathered = plan::compile(shape, from, message);
            const auto scattered = plan::compile(shape, message, to);
            copy.kernels.push_back((copy.sends ? gathered : scattered).kernel(context.update));
            far_relations.push_back(copy.sends ? scattered : gathered);
        }
        if (!buffer_) buffer_ = memory::SegmentPool::allocate_private(buffer_bytes_);
        for (const plan::PartChunk& c : cut.chunks) {
            const std::int64_t in_source = plan::source_shift_bytes(cut, c, *from.memory);
            const std::int64_t in_destination = plan::destination_shift_bytes(cut, c, *to.memory);
            const AddressRelation& r = far_relations[c.shape];
            std::byte* far = far_base(context, leg, copy.sends);
            const auto there = copy.sends ? r.destination_pieces(far + in_destination)
                                          : r.source_pieces(far + in_source);
            const auto bytes = static_cast<std::size_t>(cut.shape_elems[c.shape] * from.elem_bytes);
            copy.steps.push_back({ProcessCopy(peer_of(context, leg).pid,
                                              copy.sends ? ProcessCopy::Direction::write
                                                         : ProcessCopy::Direction::read,
                                              {{buffer_->data, bytes}}, there),
                                  c.shape, copy.sends ? in_source : in_destination});
        }
    }

    const std::byte* source_;
    std::byte* destination_;
    std::vector<Copy> copies_;
    std::int64_t buffer_bytes_ = 0;
    memory::AllocationPtr buffer_;  ///< where elements stop over, one chunk at a time
};

}  // namespace

extern const TransportKind read_kind;
const TransportKind read_kind{
    "read",
    [](const PairFacts& facts) { return facts.readable && !facts.same_process; },
    [](const PairFacts& facts) {
        return facts.plain_copy && facts.balanced &&
               facts.direct_run_bytes >= least_paying_run_bytes;
    },
    [](const BindContext& context, std::vector<Leg> sends,
       std::vector<Leg> receives) -> std::unique_ptr<Transport> {
        return std::make_unique<ReadTransport>(context, sends, receives);
    },
};

}  // namespace datamover::transport

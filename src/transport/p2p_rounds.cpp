// SPDX-License-Identifier: BSD-3-Clause
// How does data move by messages when there is little memory for them? In chunks, which take turns
// in a few buffers; chunks of a contiguous array go straight from and to the array.
//
// Receives are posted and messages sent in the order of the chunks, which MPI keeps. Nobody waits
// for anything but a buffer of its own, so no order of processes can lock.
#include "p2p_rounds.hpp"

#include <algorithm>
#include <utility>

#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "plan/part_chunks.hpp"

namespace datamover::transport {
namespace {

/// Messages of one pair under way at the same time where no buffers are needed.
constexpr std::size_t direct_width = 4;

struct Chunk {
    std::size_t shape = 0;
    std::int64_t shift_bytes = 0;  ///< in the array
    std::size_t request = 0;       ///< for a buffered flow: of those of a buffer
};

/// One direction of one pair.
struct Flow {
    std::int64_t peer = 0;
    bool sends = false;
    AddressRelation relation;
    std::vector<CopyKernel> kernels;  ///< per shape
    std::vector<Chunk> chunks;
    memory::AllocationPtr buffers;  ///< none where the array itself is contiguous
    std::int64_t buffer_bytes = 0;
    std::size_t width = 1;              ///< messages that may be under way
    std::size_t first_active = 0;       ///< of this flow's `width` places among the active requests
    std::size_t first_request = 0;      ///< of this flow's: per buffer and message size, or
    std::size_t request_count = 0;      ///< (direct) per chunk
    std::vector<std::size_t> chunk_at;  ///< per place
    std::vector<char> busy;             ///< per place
    std::size_t posted = 0, completed = 0;

    bool complete() const { return completed == chunks.size(); }
    std::byte* buffer(std::size_t place) const {
        return buffers->data + static_cast<std::int64_t>(place) * buffer_bytes;
    }
    std::size_t request_for(std::size_t chunk, std::size_t place) const {
        if (!buffers) return first_request + chunk;
        return first_request + place * (request_count / width) + chunks[chunk].request;
    }
};

/// Makes a flow's buffers and requests.
class FlowMaker {
public:
    FlowMaker(const BindContext& context, const Leg& leg, bool sends,
              mpi::PersistentRequests& requests, std::size_t request_count)
        : context_(context), sends_(sends), elem_bytes_(context.wire().bytes), requests_(requests) {
        flow_.first_request = request_count;
        const auto array = sends ? context.source_side() : context.destination_side();
        const auto message = context.message_side();
        const auto compiled = [&](const PairPart& part) {
            return sends ? plan::compile(part, array, message, context.order)
                         : plan::compile(part, message, array, context.order);
        };
        const auto cut = plan::cut_into_chunks(
            *leg.part, std::max<std::int64_t>(1, context.chunk_bytes / elem_bytes_), context.order,
            plan::ChunkForm::ranges);
        const ElementUpdate update = sends ? context.packing_update() : context.unpacking_update();
        flow_.peer = leg.peer;
        flow_.sends = sends;
        flow_.relation = compiled(*leg.part);
        const bool contiguous =
            sends ? flow_.relation.source_contiguous() : flow_.relation.destination_contiguous();
        direct_ = contiguous && update.is_plain_copy();
        for (const PairPart& shape : cut.shapes)
            flow_.kernels.push_back(compiled(shape).kernel(update));
        for (const plan::PartChunk& c : cut.chunks)
            flow_.chunks.push_back(
                {c.shape, sends ? plan::source_shift_bytes(cut, c, *array.memory)
                                : plan::destination_shift_bytes(cut, c, *array.memory)});
        flow_.width = std::min(direct_ ? direct_width : static_cast<std::size_t>(context.slots),
                               std::max<std::size_t>(1, cut.chunks.size()));
        flow_.chunk_at.assign(flow_.width, 0);
        flow_.busy.assign(flow_.width, 0);
        if (direct_)
            make_direct_requests(cut);
        else
            make_buffered_requests(cut);
    }

    Flow take() { return std::move(flow_); }

private:
    void make_direct_requests(const plan::ChunkedPart& cut) {
        std::byte* at =
            sends_ ? context_.source->base + flow_.relation.source_bounds().begin_bytes
                   : context_.destination->base + flow_.relation.destination_bounds().begin_bytes;
        for (const Chunk& chunk : flow_.chunks) {
            const std::int64_t bytes = cut.shape_elems[chunk.shape] * elem_bytes_;
            add_request(at, bytes);
            at += bytes;
        }
    }

    void make_buffered_requests(const plan::ChunkedPart& cut) {
        std::vector<std::int64_t> sizes = cut.shape_elems;
        std::sort(sizes.begin(), sizes.end());
        sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
        for (Chunk& chunk : flow_.chunks)
            chunk.request = static_cast<std::size_t>(
                std::lower_bound(sizes.begin(), sizes.end(), cut.shape_elems[chunk.shape]) -
                sizes.begin());
        if (sizes.empty()) return;
        constexpr std::int64_t line_bytes = 64;
        flow_.buffer_bytes =
            (sizes.back() * elem_bytes_ + line_bytes - 1) / line_bytes * line_bytes;
        flow_.buffers = memory::SegmentPool::allocate_private(
            flow_.buffer_bytes * static_cast<std::int64_t>(flow_.width));
        for (std::size_t place = 0; place < flow_.width; ++place)
            for (const std::int64_t elems : sizes)
                add_request(flow_.buffer(place), elems * elem_bytes_);
    }

    void add_request(std::byte* data, std::int64_t bytes) {
        const int peer = mpi::to_int(flow_.peer, "rank");
        const MPI_Comm comm = context_.group->comm();
        if (sends_)
            requests_.add_send(data, bytes, peer, context_.tag, comm);
        else
            requests_.add_receive(data, bytes, peer, context_.tag, comm);
        ++flow_.request_count;
    }

    const BindContext& context_;
    bool sends_, direct_ = false;
    std::int64_t elem_bytes_;
    mpi::PersistentRequests& requests_;
    Flow flow_;
};

class P2pInRounds final : public Transport {
public:
    P2pInRounds(const BindContext& context, const std::vector<Leg>& sends,
                const std::vector<Leg>& receives)
        : group_(context.group),
          source_(context.source->base),
          destination_(context.destination->base) {
        for (const Leg& leg : receives) add(context, leg, false);
        for (const Leg& leg : sends) add(context, leg, true);
        active_.assign(flow_at_.size(), MPI_REQUEST_NULL);
        ended_.resize(flow_at_.size());
    }

    ~P2pInRounds() override {
        for (const Flow& flow : flows_)
            for (std::size_t i = 0; i < flow.request_count; ++i)
                if (!requests_.free(flow.first_request + i)) group_->abandon(flow.buffers);
    }

    void start() override {
        for (Flow& flow : flows_) {
            flow.posted = flow.completed = 0;
            post(flow);
        }
    }

    bool progress() override {
        int count = 0;
        mpi::check(MPI_Testsome(mpi::to_int(static_cast<std::int64_t>(active_.size()), "count"),
                                active_.data(), &count, ended_.data(), MPI_STATUSES_IGNORE),
                   "MPI_Testsome");
        for (int k = 0; k < count; ++k)
            end(static_cast<std::size_t>(ended_[static_cast<std::size_t>(k)]));
        return std::all_of(flows_.begin(), flows_.end(),
                           [](const Flow& flow) { return flow.complete(); });
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers;
        for (const Flow& flow : flows_)
            if (!flow.complete()) peers.push_back(flow.peer);
        return peers;
    }

    void report(std::vector<MoverLeg>& lines) const override {
        for (const Flow& f : flows_) {
            lines.push_back(leg_line(f.peer, f.sends, "p2p", f.relation,
                                     f.kernels.empty() ? CopyKernel() : f.kernels.front()));
            lines.back().chunks = static_cast<std::int64_t>(f.chunks.size());
        }
    }

    std::int64_t extra_bytes() const override {
        std::int64_t bytes = 0;
        for (const Flow& flow : flows_) bytes += flow.buffers ? flow.buffers->bytes : 0;
        return bytes;
    }

private:
    void add(const BindContext& context, const Leg& leg, bool sends) {
        Flow flow = FlowMaker(context, leg, sends, requests_, request_count_).take();
        request_count_ += flow.request_count;
        flow.first_active = flow_at_.size();
        flow_at_.insert(flow_at_.end(), flow.width, flows_.size());
        flows_.push_back(std::move(flow));
    }

    /// Posts chunks, in order, as long as the next one's place is free.
    void post(Flow& flow) {
        while (flow.posted < flow.chunks.size()) {
            const std::size_t place = flow.posted % flow.width;
            if (flow.busy[place]) return;
            const Chunk& chunk = flow.chunks[flow.posted];
            if (flow.sends && flow.buffers)
                flow.kernels[chunk.shape](source_ + chunk.shift_bytes, flow.buffer(place));
            MPI_Request& active = active_[flow.first_active + place];
            active = requests_[flow.request_for(flow.posted, place)];
            mpi::check(MPI_Start(&active), "MPI_Start");
            flow.busy[place] = 1;
            flow.chunk_at[place] = flow.posted++;
        }
    }

    void end(std::size_t active) {
        Flow& flow = flows_[flow_at_[active]];
        const std::size_t place = active - flow.first_active;
        const Chunk& chunk = flow.chunks[flow.chunk_at[place]];
        if (!flow.sends && flow.buffers)
            flow.kernels[chunk.shape](flow.buffer(place), destination_ + chunk.shift_bytes);
        flow.busy[place] = 0;
        ++flow.completed;
        post(flow);
    }

    mpi::ProcessGroupPtr group_;
    const std::byte* source_;
    std::byte* destination_;
    std::vector<Flow> flows_;  ///< receives before sends
    mpi::PersistentRequests requests_;
    std::size_t request_count_ = 0;
    std::vector<MPI_Request> active_;   ///< per place of every flow: the request under way there
    std::vector<std::size_t> flow_at_;  ///< whose place it is
    std::vector<int> ended_;
};

}  // namespace

bool goes_in_rounds(const BindContext& context, const Leg& leg) {
    return context.chunk_bytes > 0 && leg.part->size() * context.wire().bytes > context.chunk_bytes;
}

std::unique_ptr<Transport> messages_in_rounds(const BindContext& context,
                                              const std::vector<Leg>& sends,
                                              const std::vector<Leg>& receives) {
    return std::make_unique<P2pInRounds>(context, sends, receives);
}

}  // namespace datamover::transport

// SPDX-License-Identifier: BSD-3-Clause
// How does data move by messages? One per pair of processes, packed unless it is contiguous.
#include <algorithm>
#include <utility>

#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "p2p_rounds.hpp"
#include "transport.hpp"

namespace datamover::transport {
namespace {

/// A peer's message: its buffer (none where the array itself is contiguous) and the relation
/// between array and message.
struct Message {
    std::int64_t peer = 0;
    std::int64_t bytes = 0;
    AddressRelation relation;
    CopyKernel kernel;
    memory::AllocationPtr buffer;
};

class P2pTransport final : public Transport {
public:
    P2pTransport(const BindContext& context, const std::vector<Leg>& sends,
                 const std::vector<Leg>& receives)
        : group_(context.group),
          source_(context.source->base),
          destination_(context.destination->base) {
        const auto message_side = context.message_side();
        const ElementUpdate packing = context.packing_update();
        const ElementUpdate unpacking = context.unpacking_update();
        for (const Leg& leg : receives) {
            Message m = message_of(
                leg, message_side.elem_bytes,
                plan::compile(*leg.part, message_side, context.destination_side(), context.order));
            m.kernel = m.relation.kernel(unpacking);
            if (!unpacking.is_plain_copy() || !m.relation.destination_contiguous())
                m.buffer = memory::SegmentPool::allocate_private(m.bytes);
            receives_.push_back(std::move(m));
        }
        for (const Leg& leg : sends) {
            Message m = message_of(
                leg, message_side.elem_bytes,
                plan::compile(*leg.part, context.source_side(), message_side, context.order));
            m.kernel = m.relation.kernel(packing);
            if (!packing.is_plain_copy() || !m.relation.source_contiguous())
                m.buffer = memory::SegmentPool::allocate_private(m.bytes);
            sends_.push_back(std::move(m));
        }
        arrived_.resize(receives_.size());
        make_requests(context);
    }

    ~P2pTransport() override {
        end(receive_requests_, receives_);
        end(send_requests_, sends_);
    }

    void start() override {
        unpacked_ = 0;
        sent_ = false;
        if (!receives_.empty())
            mpi::check(MPI_Startall(static_cast<int>(receives_.size()), receive_requests_.data()),
                       "MPI_Startall");
        for (std::size_t i = 0; i < sends_.size(); ++i) {
            Message& m = sends_[i];
            if (m.buffer) m.kernel(source_, m.buffer->data);
            mpi::check(MPI_Start(send_requests_.data() + i), "MPI_Start");
        }
    }

    bool progress() override {
        if (unpacked_ < receives_.size()) unpack_arrived();
        if (!sent_) {
            int done = 1;
            mpi::check(MPI_Testall(static_cast<int>(sends_.size()), send_requests_.data(), &done,
                                   MPI_STATUSES_IGNORE),
                       "MPI_Testall");
            sent_ = done != 0;
        }
        return sent_ && unpacked_ == receives_.size();
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers;
        for (std::size_t i = 0; i < receives_.size(); ++i) {
            int done = 0;
            MPI_Request_get_status(receive_requests_[i], &done, MPI_STATUS_IGNORE);
            if (!done) peers.push_back(receives_[i].peer);
        }
        if (!sent_)
            for (const Message& m : sends_) peers.push_back(m.peer);
        return peers;
    }

    void report(std::vector<MoverLeg>& lines) const override {
        for (const Message& m : sends_)
            lines.push_back(leg_line(m.peer, true, "p2p", m.relation, m.kernel));
        for (const Message& m : receives_)
            lines.push_back(leg_line(m.peer, false, "p2p", m.relation, m.kernel));
    }

    std::int64_t extra_bytes() const override {
        std::int64_t bytes = 0;
        for (const auto* messages : {&sends_, &receives_})
            for (const Message& m : *messages) bytes += m.buffer ? m.buffer->bytes : 0;
        return bytes;
    }

private:
    static Message message_of(const Leg& leg, std::int64_t elem_bytes, AddressRelation relation) {
        Message m;
        m.peer = leg.peer;
        m.bytes = relation.size() * elem_bytes;
        m.relation = std::move(relation);
        return m;
    }

    void make_requests(const BindContext& context) {
        for (const Message& m : receives_) {
            std::byte* data = m.buffer ? m.buffer->data
                                       : destination_ + m.relation.destination_bounds().begin_bytes;
            receive_requests_.add_receive(data, m.bytes, mpi::to_int(m.peer, "rank"), context.tag,
                                          context.group->comm());
        }
        for (const Message& m : sends_) {
            const std::byte* data =
                m.buffer ? m.buffer->data : source_ + m.relation.source_bounds().begin_bytes;
            send_requests_.add_send(data, m.bytes, mpi::to_int(m.peer, "rank"), context.tag,
                                    context.group->comm());
        }
    }

    void end(mpi::PersistentRequests& requests, const std::vector<Message>& messages) {
        for (std::size_t i = 0; i < messages.size(); ++i)
            if (!requests.free(i)) group_->abandon(messages[i].buffer);
    }

    void unpack_arrived() {
        int count = 0;
        mpi::check(MPI_Testsome(static_cast<int>(receives_.size()), receive_requests_.data(),
                                &count, arrived_.data(), MPI_STATUSES_IGNORE),
                   "MPI_Testsome");
        for (int k = 0; k < count; ++k) {
            Message& m = receives_[static_cast<std::size_t>(arrived_[static_cast<std::size_t>(k)])];
            if (m.buffer) m.kernel(m.buffer->data, destination_);
            ++unpacked_;
        }
    }

    mpi::ProcessGroupPtr group_;
    const std::byte* source_;
    std::byte* destination_;
    std::vector<Message> sends_, receives_;
    mpi::PersistentRequests send_requests_, receive_requests_;
    std::vector<int> arrived_;
    std::size_t unpacked_ = 0;
    bool sent_ = true;
};

}  // namespace

extern const TransportKind p2p_kind;
const TransportKind p2p_kind{
    "p2p",
    [](const PairFacts& facts) { return !facts.same_process; },
    [](const PairFacts&) { return true; },
    [](const BindContext& context, std::vector<Leg> sends,
       std::vector<Leg> receives) -> std::unique_ptr<Transport> {
        const auto long_one = [&](const Leg& leg) { return goes_in_rounds(context, leg); };
        if (std::any_of(sends.begin(), sends.end(), long_one) ||
            std::any_of(receives.begin(), receives.end(), long_one))
            return messages_in_rounds(context, sends, receives);
        return std::make_unique<P2pTransport>(context, sends, receives);
    },
};

}  // namespace datamover::transport

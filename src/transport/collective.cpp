// SPDX-License-Identifier: BSD-3-Clause
// How does data move by one operation of MPI in which all processes take part?
//
// A non-blocking MPI_Alltoallw per chunk, of which one at a time is under way: as many as the
// process with the longest message needs, by all processes. Data is packed, unless a chunk lies in
// memory as it lies in the message. MPI matches such operations by their order, which therefore has
// to be the same everywhere: that of the movers' starts (ProcessGroup::take_turn). They cannot be
// cancelled: what MPI may still look at after a failure is kept.
#include <algorithm>
#include <string>
#include <utility>

#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/datatype.hpp"
#include "transport.hpp"

namespace datamover::transport {
namespace {

/// One direction of one pair.
struct ExchangedPair {
    std::int64_t peer = 0;
    bool sends = false;
    PairProgram program;
    memory::AllocationPtr buffer;         ///< none where the arrays themselves are exchanged
    std::vector<mpi::Datatype> types;     ///< where the bytes of a chunk lie
    std::vector<std::size_t> type_index;  ///< per chunk

    std::size_t add_type(const void* memory, std::int64_t bytes) {
        types.push_back(mpi::bytes_at(memory, bytes));
        return types.size() - 1;
    }
};

/// What MPI may look at until the operation has ended.
struct Exchange {
    /// What goes to, or comes from, each rank: one of its type, or nothing.
    struct Half {
        std::vector<int> counts, displacements;
        std::vector<MPI_Datatype> types;

        explicit Half(std::size_t ranks)
            : counts(ranks, 0), displacements(ranks, 0), types(ranks, MPI_BYTE) {}
        void set(const ExchangedPair& pair, std::size_t chunk) {
            const auto rank = static_cast<std::size_t>(pair.peer);
            const bool any = chunk < pair.program.chunks();
            counts[rank] = any;
            types[rank] = any ? pair.types[pair.type_index[chunk]].get() : MPI_BYTE;
        }
    };

    explicit Exchange(std::size_t ranks) : sent(ranks), received(ranks) {}

    Half sent, received;
    std::vector<ExchangedPair> pairs;
    MPI_Request request = MPI_REQUEST_NULL;
};

ExchangedPair exchanged(const BindContext& context, const Pair& pair) {
    ExchangedPair made;
    made.peer = pair.peer;
    made.sends = pair.sends();
    // Longer ones take MPI another way, which is slower here (measured with mpich 5).
    made.program = context.message_program(pair, {context.chunk_bytes});
    const std::size_t chunks = made.program.chunks();
    if (made.program.all_in_place()) {
        for (std::size_t i = 0; i < chunks; ++i)
            made.type_index.push_back(
                made.add_type(made.program.in_place(i), made.program.chunk_bytes(i)));
        return made;
    }
    made.buffer = memory::SegmentPool::allocate_private(made.program.most_chunk_bytes());
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < chunks; ++i) {
        const std::int64_t bytes = made.program.chunk_bytes(i);
        const auto known = std::find(sizes.begin(), sizes.end(), bytes);
        made.type_index.push_back(static_cast<std::size_t>(known - sizes.begin()));
        if (known != sizes.end()) continue;
        sizes.push_back(bytes);
        made.add_type(made.buffer->data, bytes);
    }
    return made;
}

class CollectiveTransport final : public Transport {
public:
    CollectiveTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : group_(context.group),
          number_(context.first_tag),
          exchange_(std::make_shared<Exchange>(static_cast<std::size_t>(context.group->size()))) {
        for (const Pair& pair : pairs) exchange_->pairs.push_back(exchanged(context, pair));
    }

    ~CollectiveTransport() override {
        MPI_Request& request = exchange_->request;
        if (request == MPI_REQUEST_NULL || !mpi::is_running()) return;
        int ended = 0;
        if (MPI_Test(&request, &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS || !ended)
            group_->abandon(exchange_);
    }

    std::int64_t operations() const override {
        std::size_t most = 0;
        for (const ExchangedPair& pair : exchange_->pairs)
            most = std::max(most, pair.program.chunks());
        return static_cast<std::int64_t>(most);
    }
    void agree_on_operations(std::int64_t most) override { operations_ = next_ = most; }

    void take_turn() override {
        next_ = 0;
        if (operations_ > 0) turn_ = group_->take_turn();
    }

    void start() override {
        if (next_ < operations_ && group_->is_turn(turn_)) begin();
    }

    Progress progress() override {
        if (next_ == operations_) return Progress::complete;
        if (exchange_->request == MPI_REQUEST_NULL) {
            if (!group_->is_turn(turn_)) return Progress::none;
            begin();
        }
        int ended = 0;
        mpi::check(MPI_Test(&exchange_->request, &ended, MPI_STATUS_IGNORE), "MPI_Ialltoallw");
        if (!ended) return Progress::none;
        const auto chunk = static_cast<std::size_t>(next_);
        for (const ExchangedPair& pair : exchange_->pairs)
            if (!pair.sends && pair.buffer && chunk < pair.program.chunks())
                pair.program.unpack(chunk, pair.buffer->data);
        if (++next_ == operations_) return Progress::complete;
        begin();
        return Progress::some;
    }

    /// A process without a pair waits for all.
    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers;
        for (const ExchangedPair& pair : exchange_->pairs) peers.push_back(pair.peer);
        for (int rank = 0; exchange_->pairs.empty() && rank < group_->size(); ++rank)
            if (rank != group_->rank()) peers.push_back(rank);
        return peers;
    }

    void report(std::vector<MoverPair>& lines) const override {
        for (const ExchangedPair& p : exchange_->pairs)
            lines.push_back(pair_line(p.peer, p.sends, "collective", p.program));
    }

    bool needs_polls() const override { return true; }

    std::int64_t extra_bytes() const override {
        std::int64_t bytes = 0;
        for (const ExchangedPair& p : exchange_->pairs) bytes += p.buffer ? p.buffer->bytes : 0;
        return bytes;
    }

private:
    /// The turn ends with the last operation of the round that begins, so that other movers' come
    /// neither between these nor only after they have ended.
    void begin() {
        if (next_ == 0) group_->begin_turn(turn_, number_);
        Exchange& e = *exchange_;
        const auto chunk = static_cast<std::size_t>(next_);
        for (const ExchangedPair& pair : e.pairs) {
            (pair.sends ? e.sent : e.received).set(pair, chunk);
            if (pair.sends && pair.buffer && chunk < pair.program.chunks())
                pair.program.pack(chunk, pair.buffer->data);
        }
        mpi::check(MPI_Ialltoallw(MPI_BOTTOM, e.sent.counts.data(), e.sent.displacements.data(),
                                  e.sent.types.data(), MPI_BOTTOM, e.received.counts.data(),
                                  e.received.displacements.data(), e.received.types.data(),
                                  group_->turns_comm(), &e.request),
                   "MPI_Ialltoallw");
        if (next_ + 1 == operations_) group_->end_turn();
    }

    mpi::ProcessGroupPtr group_;
    int number_;  ///< of the binding, the same on all processes
    std::shared_ptr<Exchange> exchange_;
    std::int64_t operations_ = 0, next_ = 0;
    std::uint64_t turn_ = 0;
};

}  // namespace

extern const TransportKind collective_kind;
const TransportKind collective_kind{
    "collective",
    MessageMemory::buffers,
    true,
    [](const PairFacts& facts) { return !facts.same_process; },
    [](const PairFacts&) { return false; },
    [](const PairFacts&) { return std::string("all processes take part"); },
    [](const BindContext& context, const std::vector<Pair>& pairs) -> std::unique_ptr<Transport> {
        return std::make_unique<CollectiveTransport>(context, pairs);
    },
    true,
};

}  // namespace datamover::transport

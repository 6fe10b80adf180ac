// SPDX-License-Identifier: BSD-3-Clause
// How does data move by one operation of all processes per chunk?
//
// In general that is MPI_Ialltoallw. Where each process that sends has the same message for all
// others, it is packed once and goes by MPI_Ibcast (one sends) or MPI_Iallgatherv (several do).
#include <algorithm>
#include <limits>
#include <string>

#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "turn_transport.hpp"

namespace datamover::transport {
namespace {

/// With fewer processes all are the same.
constexpr int least_processes = 3;

memory::AllocationPtr part_of(const memory::AllocationPtr& memory, std::int64_t offset_bytes,
                              std::int64_t bytes) {
    return {new memory::Allocation{memory->data + offset_bytes, bytes, nullptr, 0, {}},
            [memory](const memory::Allocation* part) { delete part; }};
}

class CollectiveTransport final : public TurnTransport {
public:
    CollectiveTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : TurnTransport(context, pairs, "collective", "MPI_Ialltoallw") {
        const auto ranks = static_cast<std::size_t>(context.group->size());
        exchange().sent.resize(ranks);
        exchange().received.resize(ranks);
    }

    void all_have_bound(std::int64_t operations) override {
        TurnTransport::all_have_bound(operations);
        if (operations > 0 && group().size() >= least_processes) choose_form();
    }

private:
    enum class Form { all_to_all, broadcast, all_gather };

    /// From what all processes send, the same everywhere.
    void choose_form() {
        std::int64_t sends = 0, most_bytes = 0;
        bool alike = true;
        const ExchangedPair* first = nullptr;
        for (const ExchangedPair& pair : exchange().pairs) {
            most_bytes = std::max(most_bytes, pair.program.most_chunk_bytes());
            if (!pair.sends) continue;
            ++sends;
            if (!first) first = &pair;
            alike = alike && pair.program.packs_as(first->program);
        }
        const std::int64_t rank = group().rank(), size = group().size();
        const bool fits = sends == 0 || (sends == size - 1 && alike);
        const auto votes =
            group().maximum({!fits, sends ? rank : -1, sends ? -rank : -size, most_bytes});
        if (votes[0] > 0) return;
        if (votes[1] == -votes[2]) {
            root_ = static_cast<int>(votes[1]);
            broadcast();
        } else if (votes[3] * size <= std::numeric_limits<int>::max()) {
            mpi::collectively(group(), [&] { all_gather(); });
        }
    }

    /// The first of equal messages stands for all.
    void broadcast() {
        form_ = Form::broadcast;
        use_call("MPI_Ibcast");
        bool is_first = true;
        for (ExchangedPair& pair : exchange().pairs) {
            if (!pair.sends) continue;
            if (is_first)
                representative_ = pair.place;
            else
                pair.buffer.reset();
            is_first = false;
        }
    }

    /// Every process's message has a place in one buffer; also where it would need none.
    void all_gather() {
        Exchange& e = exchange();
        Exchange::Gathered& g = e.gathered;
        std::vector<std::int64_t> starts_bytes, bytes(e.sent.counts.size(), 0);
        for (const ExchangedPair& pair : e.pairs)
            bytes[sender(pair)] = pair.program.most_chunk_bytes();
        std::int64_t total_bytes = 0;
        for (const std::int64_t b : bytes) {
            starts_bytes.push_back(total_bytes);
            g.starts_bytes.push_back(mpi::to_int(total_bytes, "buffer"));
            total_bytes += b;
        }
        g.counts_bytes.resize(bytes.size());
        g.memory = memory::SegmentPool::allocate_private(total_bytes);
        bool has_own = false;
        for (ExchangedPair& pair : e.pairs) {
            const std::size_t from = sender(pair);
            pair.buffer = pair.sends && has_own
                              ? nullptr
                              : part_of(g.memory, starts_bytes[from], bytes[from]);
            has_own = has_own || pair.sends;
        }
        form_ = Form::all_gather;
        use_call("MPI_Iallgatherv");
    }

    std::size_t sender(const ExchangedPair& pair) const {
        return pair.sends ? static_cast<std::size_t>(group().rank()) : pair.place;
    }

    int begin_operation(const Exchange& e, std::size_t chunk, MPI_Request* request) override {
        if (form_ == Form::broadcast) {
            const bool is_root = group().rank() == root_;
            const Exchange::Half& half = is_root ? e.sent : e.received;
            const std::size_t place = is_root ? representative_ : static_cast<std::size_t>(root_);
            return MPI_Ibcast(MPI_BOTTOM, half.counts[place], half.types[place], root_,
                              group().turns_comm(), request);
        }
        if (form_ == Form::all_gather) {
            const Exchange::Gathered& g = e.gathered;
            count(chunk);
            return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, g.memory->data, g.counts_bytes.data(),
                                   g.starts_bytes.data(), MPI_BYTE, group().turns_comm(), request);
        }
        return MPI_Ialltoallw(MPI_BOTTOM, e.sent.counts.data(), e.sent.zeros.data(),
                              e.sent.types.data(), MPI_BOTTOM, e.received.counts.data(),
                              e.received.zeros.data(), e.received.types.data(),
                              group().turns_comm(), request);
    }

    /// Bytes of a chunk from each process.
    void count(std::size_t chunk) {
        std::vector<int>& counts = exchange().gathered.counts_bytes;
        std::fill(counts.begin(), counts.end(), 0);
        for (const ExchangedPair& pair : exchange().pairs)
            if (chunk < pair.program.chunks())
                counts[sender(pair)] = static_cast<int>(pair.program.chunk_bytes(chunk));
    }

    Form form_ = Form::all_to_all;
    int root_ = 0;
    std::size_t representative_ = 0;  ///< the place of the message that is sent to all
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

// SPDX-License-Identifier: BSD-3-Clause
// The transport "collective": one MPI_Ialltoallw, broadcast or all-gather per chunk.
//
// In general that is MPI_Ialltoallw. Where each process that sends has the same message for all
// others, it is packed once and goes by MPI_Ibcast (one sends) or MPI_Iallgatherv (several do). The
// others may be all, or those of its part where the processes fall into parts between which nothing
// goes: a panel goes to the rows of a grid by a broadcast in each row, all of them at once.
//
// One operation per chunk, of which one at a time is under way: as many as the process with the
// longest message needs, by all processes. Data is packed, unless a chunk is stored in memory as in
// the message. MPI matches such operations by their order, so each mover has a communicator of its
// own: movers may be started in any order. They cannot be cancelled: memory that MPI may still
// access after a failure is kept.
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/collectives.hpp"
#include "mpi/communicators.hpp"
#include "mpi/process_group.hpp"
#include "transport.hpp"

#if MPI_VERSION >= 4
// Null where there is none (mpi::has_large_counts).
#pragma weak MPI_Ialltoallw_c
#endif

namespace datamover::transport {
namespace {

/// One direction of one pair.
struct ExchangedPair {
    std::int64_t peer = 0;
    bool sends = false;
    PairProgram program;
    memory::AllocationPtr memory;      ///< of the buffer, where that is its own
    std::byte* buffer = nullptr;       ///< null where the arrays themselves are exchanged
    std::vector<mpi::Datatype> types;  ///< of bytes; none where MPI is told addresses
    std::vector<std::size_t> type_of_chunk;

    /// The exchange with a process, packed or in place. `takes_addresses`: MPI's operation takes
    /// addresses as displacements.
    ExchangedPair(const BindContext& context, const Pair& pair, bool takes_addresses)
        : peer(pair.peer),
          sends(pair.sends()),
          // Longer ones take MPI another way, which is slower here (measured with mpich 5).
          program(context.message_program(pair, {context.chunk_bytes})) {
        const std::int64_t most_bytes = program.most_chunk_bytes();
        if (!program.all_in_place()) {
            memory = memory::SegmentPool::allocate_private(most_bytes);
            buffer = memory->data;
        }
        if (takes_addresses && most_bytes <= std::numeric_limits<int>::max()) return;
        // Of a buffer there are one or two for all of what may be a great many chunks.
        std::map<std::pair<const std::byte*, std::int64_t>, std::size_t> number;
        for (std::size_t i = 0; i < program.chunks(); ++i) {
            const std::pair bytes{bytes_of(i), program.chunk_bytes(i)};
            const auto [known, is_new] = number.try_emplace(bytes, types.size());
            if (is_new) types.push_back(mpi::bytes_at(bytes.first, bytes.second));
            type_of_chunk.push_back(known->second);
        }
    }

    std::size_t rank() const { return static_cast<std::size_t>(peer); }
    const std::byte* bytes_of(std::size_t chunk) const {
        return buffer ? buffer : program.in_place(chunk);
    }
};

/// What MPI may look at until an operation has ended.
struct Exchange {
    /// What goes to, or comes from, each rank. Where MPI's call takes addresses as displacements
    /// from MPI_BOTTOM, these are bytes: MPICH takes 2.5 to 4 times as long over a type of its own
    /// for each (measured with 2 MiB). Else one of a type that counts from MPI_BOTTOM, with nothing
    /// to add.
    struct Half {
        std::vector<int> counts, zeros;
        std::vector<MPI_Count> long_counts;
        std::vector<MPI_Aint> displacements;
        std::vector<MPI_Datatype> types;

        explicit Half(std::size_t ranks)
            : counts(ranks, 0),
              zeros(ranks, 0),
              long_counts(ranks, 0),
              displacements(ranks, 0),
              types(ranks, MPI_BYTE) {}
        void set(const ExchangedPair& pair, std::size_t chunk) {
            const std::size_t i = pair.rank();
            const bool any = chunk < pair.program.chunks();
            const bool as_bytes = any && pair.types.empty();
            counts[i] = as_bytes ? static_cast<int>(pair.program.chunk_bytes(chunk)) : any;
            long_counts[i] = counts[i];
            displacements[i] = as_bytes ? mpi::displacement_of(pair.bytes_of(chunk)) : 0;
            types[i] = any && !as_bytes ? pair.types[pair.type_of_chunk[chunk]].get() : MPI_BYTE;
        }
        void* address(std::size_t rank) const {
            if (displacements[rank] == 0) return MPI_BOTTOM;
            return reinterpret_cast<void*>(displacements[rank]);
        }
    };

    /// Where all messages of an operation come into one buffer: its parts, by process.
    struct Gathered {
        memory::AllocationPtr memory;
        std::vector<int> counts_bytes, starts_bytes;
    };

    explicit Exchange(std::size_t ranks) : sent(ranks), received(ranks) {}

    Half sent, received;
    Gathered gathered;
    std::vector<ExchangedPair> pairs;
    MPI_Request request = MPI_REQUEST_NULL;
};

/// With fewer processes, all operations are the same.
constexpr int least_processes = 3;
/// Operations of parts of the processes pay from messages of this length on (measured with mpich 5:
/// up to 1.2 times slower with 4 KiB, 1.1 to 1.4 times as fast with 256 KiB and more).
constexpr std::int64_t least_bytes_in_parts = 64 << 10;

/// What a process tells the others of what it sends.
struct Sending {
    std::int64_t fits = true;    ///< it sends nothing, or one message to all to whom it sends
    std::int64_t part = -1;      ///< the lowest rank of itself and those; -1 where it sends nothing
    std::int64_t processes = 0;  ///< itself and those
    std::int64_t most_bytes = 0;     ///< of a chunk
    std::int64_t message_bytes = 0;  ///< of all chunks
};

Sending sending_of(std::int64_t me, const std::vector<ExchangedPair>& pairs) {
    Sending own;
    const ExchangedPair* first = nullptr;
    for (const ExchangedPair& pair : pairs) {
        own.most_bytes = std::max(own.most_bytes, pair.program.most_chunk_bytes());
        if (!pair.sends) continue;
        if (!first) {
            first = &pair;
            for (std::size_t i = 0; i < pair.program.chunks(); ++i)
                own.message_bytes += pair.program.chunk_bytes(i);
            own.part = me;
            own.processes = 1;
        }
        own.fits = own.fits && pair.program.packs_as(first->program);
        own.part = std::min(own.part, pair.peer);
        ++own.processes;
    }
    return own;
}

/// The part of the processes to which this one belongs, or -1 where those that send to it and
/// itself do not agree.
std::int64_t part_from(const std::vector<Sending>& sending, std::int64_t me,
                       const std::vector<ExchangedPair>& pairs) {
    std::int64_t part = sending[static_cast<std::size_t>(me)].part;
    for (const ExchangedPair& pair : pairs) {
        if (pair.sends) continue;
        const std::int64_t theirs = sending[pair.rank()].part;
        if (part >= 0 && part != theirs) return -1;
        part = theirs;
    }
    return part < 0 ? me : part;
}

/// Every part consists of each of its senders and all to whom that one sends. `parts` holds
/// that of each process.
bool divides(const std::vector<std::int64_t>& parts, const std::vector<Sending>& sending) {
    std::vector<std::int64_t> processes(parts.size(), 0);
    for (const std::int64_t part : parts) {
        if (part < 0) return false;
        ++processes[static_cast<std::size_t>(part)];
    }
    for (const Sending& s : sending)
        if (s.part >= 0 && s.processes != processes[static_cast<std::size_t>(s.part)]) return false;
    return *std::ranges::max_element(processes) >= least_processes;
}

class CollectiveTransport final : public Transport {
public:
    CollectiveTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : group_(context.group),
          exchange_(std::make_shared<Exchange>(static_cast<std::size_t>(group_->size()))) {
        for (const Pair& pair : pairs) {
            exchange_->pairs.emplace_back(context, pair, mpi::has_large_counts());
            add_line(context, pair, exchange_->pairs.back().program);
        }
    }

    ~CollectiveTransport() override {
        MPI_Request& request = exchange_->request;
        if (request == MPI_REQUEST_NULL || !mpi::is_running()) return;
        int ended = 0;
        if (MPI_Test(&request, &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS || !ended)
            group_->abandon(exchange_);
    }

    void all_have_bound() override {
        std::size_t most = 0;
        for (const ExchangedPair& pair : exchange_->pairs)
            most = std::max(most, pair.program.chunks());
        operations_ = next_ = group_->maximum({static_cast<std::int64_t>(most)})[0];
        if (operations_ == 0) return;
        if (group_->size() >= least_processes) choose_form();
        if (!comm_) comm_ = mpi::claim_communicator(*group_);
        if (exchange_->gathered.memory) extra_bytes_ = exchange_->gathered.memory->bytes;
        for (const ExchangedPair& p : exchange_->pairs)
            extra_bytes_ += p.memory ? p.memory->bytes : 0;
    }

    void start() override {
        if (operations_ == 0) return;
        next_ = 0;
        begin();
    }

    Progress progress() override {
        if (operations_ == 0) return Progress::complete;
        int ended = 0;
        mpi::check(MPI_Test(&exchange_->request, &ended, MPI_STATUS_IGNORE), call_);
        if (!ended) return Progress::none;
        const auto chunk = static_cast<std::size_t>(next_);
        for (const ExchangedPair& pair : exchange_->pairs)
            if (!pair.sends && pair.buffer && chunk < pair.program.chunks())
                pair.program.unpack(chunk, pair.buffer);
        if (++next_ == operations_) return Progress::complete;
        begin();
        return Progress::some;
    }

    /// A process without a pair waits for all.
    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers = Transport::waiting_for();
        for (int rank = 0; exchange_->pairs.empty() && rank < group_->size(); ++rank)
            if (rank != group_->rank()) peers.push_back(rank);
        return peers;
    }

    bool needs_polls() const override { return true; }

private:
    bool waits_for(std::size_t) const override { return true; }

    enum class Form { all_to_all, broadcast, all_gather };

    /// From what all processes send, the same everywhere. The processes fall into parts, such as
    /// the rows of a grid, in each of which every sender has one message for all others.
    void choose_form() {
        const Sending own = sending_of(group_->rank(), exchange_->pairs);
        std::vector<Sending> sending;
        for (const auto& w :
             group_->gather({own.fits, own.part, own.processes, own.most_bytes, own.message_bytes}))
            sending.push_back({w[0], w[1], w[2], w[3], w[4]});
        std::int64_t most_bytes = 0;
        for (const Sending& s : sending) {
            if (!s.fits) return;
            most_bytes = std::max(most_bytes, s.most_bytes);
        }
        std::vector<std::int64_t> parts;
        for (const auto& words :
             group_->gather({part_from(sending, group_->rank(), exchange_->pairs)}))
            parts.push_back(words[0]);
        if (!divides(parts, sending) ||
            most_bytes * group_->size() > std::numeric_limits<int>::max())
            return;
        if (std::ranges::count(parts, 0) != std::ssize(parts)) {
            if (std::ranges::all_of(sending, [](const Sending& s) {
                    return s.message_bytes < least_bytes_in_parts;
                }))
                return;
            comm_ = mpi::claim_communicator(*group_, parts);
        }
        const std::int64_t part = parts[static_cast<std::size_t>(group_->rank())];
        std::vector<std::size_t> senders;
        for (std::size_t rank = 0; rank < parts.size(); ++rank) {
            if (parts[rank] != part) continue;
            if (sending[rank].part >= 0) senders.push_back(members_.size());
            members_.push_back(static_cast<std::int64_t>(rank));
        }
        mpi::collectively(*group_, [&] {
            if (senders.size() > 1)
                all_gather();
            else
                broadcast(senders.empty() ? 0 : senders.front());
        });
    }

    /// The first of equal messages stands for all.
    void broadcast(std::size_t root) {
        root_ = static_cast<int>(root);
        place_ = static_cast<std::size_t>(members_[root]);
        use_call(Form::broadcast, "MPI_Ibcast");
        bool is_first = true;
        for (ExchangedPair& pair : exchange_->pairs) {
            if (!pair.sends) continue;
            if (is_first) {
                place_ = pair.rank();
                is_first = false;
                continue;
            }
            pair.memory = nullptr;
            pair.buffer = nullptr;
        }
    }

    /// Every process's message has a place in one buffer; also where it would need none.
    void all_gather() {
        Exchange& e = *exchange_;
        Exchange::Gathered& g = e.gathered;
        std::vector<std::int64_t> bytes(members_.size(), 0);
        for (const ExchangedPair& pair : e.pairs)
            bytes[sender(pair)] = pair.program.most_chunk_bytes();
        std::int64_t total_bytes = 0;
        for (const std::int64_t b : bytes) {
            g.starts_bytes.push_back(mpi::to_int(total_bytes, "buffer"));
            total_bytes += b;
        }
        g.counts_bytes.resize(bytes.size());
        g.memory = memory::SegmentPool::allocate_private(total_bytes);
        bool has_own = false;
        for (ExchangedPair& pair : e.pairs) {
            const std::size_t from = sender(pair);
            pair.memory = nullptr;
            pair.buffer = pair.sends && has_own ? nullptr : g.memory->data + g.starts_bytes[from];
            has_own = has_own || pair.sends;
        }
        use_call(Form::all_gather, "MPI_Iallgatherv");
    }

    /// The place among the members of who sends.
    std::size_t sender(const ExchangedPair& pair) const {
        const std::int64_t rank = pair.sends ? group_->rank() : pair.peer;
        return static_cast<std::size_t>(std::lower_bound(members_.begin(), members_.end(), rank) -
                                        members_.begin());
    }

    void use_call(Form form, const char* call) {
        form_ = form;
        call_ = call;
        std::string why = concat(", by ", call);
        if (std::ssize(members_) < group_->size())
            why += concat(" of ", members_.size(), " processes");
        for (MoverPair& line : lines_) line.why += why;
    }

    void begin() {
        Exchange& e = *exchange_;
        const auto chunk = static_cast<std::size_t>(next_);
        for (const ExchangedPair& pair : e.pairs) {
            (pair.sends ? e.sent : e.received).set(pair, chunk);
            if (pair.sends && pair.buffer && chunk < pair.program.chunks())
                pair.program.pack(chunk, pair.buffer);
        }
        mpi::check(begin_operation(e, chunk, &e.request), call_);
    }

    /// Begins the operation of a chunk. Returns MPI's code.
    int begin_operation(Exchange& e, std::size_t chunk, MPI_Request* request) {
        if (form_ == Form::broadcast) {
            const bool is_root = members_[static_cast<std::size_t>(root_)] == group_->rank();
            const Exchange::Half& half = is_root ? e.sent : e.received;
            return MPI_Ibcast(half.address(place_), half.counts[place_], half.types[place_], root_,
                              *comm_, request);
        }
        if (form_ == Form::all_gather) {
            Exchange::Gathered& g = e.gathered;
            std::ranges::fill(g.counts_bytes, 0);
            for (const ExchangedPair& pair : e.pairs)
                if (chunk < pair.program.chunks())
                    g.counts_bytes[sender(pair)] =
                        static_cast<int>(pair.program.chunk_bytes(chunk));
            return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, g.memory->data, g.counts_bytes.data(),
                                   g.starts_bytes.data(), MPI_BYTE, *comm_, request);
        }
#if MPI_VERSION >= 4
        if (mpi::has_large_counts())
            return MPI_Ialltoallw_c(MPI_BOTTOM, e.sent.long_counts.data(),
                                    e.sent.displacements.data(), e.sent.types.data(), MPI_BOTTOM,
                                    e.received.long_counts.data(), e.received.displacements.data(),
                                    e.received.types.data(), *comm_, request);
#endif
        return MPI_Ialltoallw(MPI_BOTTOM, e.sent.counts.data(), e.sent.zeros.data(),
                              e.sent.types.data(), MPI_BOTTOM, e.received.counts.data(),
                              e.received.zeros.data(), e.received.types.data(), *comm_, request);
    }

    mpi::ProcessGroupPtr group_;
    const char* call_ = "MPI_Ialltoallw";
    std::shared_ptr<Exchange> exchange_;
    std::int64_t operations_ = 0, next_ = 0;
    Form form_ = Form::all_to_all;
    std::shared_ptr<const MPI_Comm> comm_;  ///< of the part; none where nothing moves
    std::vector<std::int64_t> members_;     ///< of the part, ascending
    int root_ = 0;                          ///< among the members
    std::size_t place_ = 0;  ///< of the message that is sent to all, or that is received
};

}  // namespace

extern const TransportKind collective_kind{
    .name = "collective",
    .memory = MessageMemory::buffers,
    .sends_messages = true,
    .reason = always("all processes take part"),
    .bind = bound_as<CollectiveTransport>,
    .everyone = true,
};

}  // namespace datamover::transport

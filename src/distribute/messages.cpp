// SPDX-License-Identifier: BSD-3-Clause
// Messages of migrations: one for all elements of a pair of processes, and those that count.
//
// On a node counts go through shared memory. Beyond it only pairs with elements exchange a message;
// that no more are coming is found out by a reduction that starts when all own messages have been
// received (T. Hoefler, C. Siebert, A. Lumsdaine, Scalable Communication Protocols for Dynamic
// Sparse Data Exchange, PPoPP 2010, the NBX algorithm).
#include "messages.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "agreement.hpp"
#include "migration_state.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"

namespace datamover::distribute {
namespace {

/// A buffer, a count and a datatype that stand for parts of memory.
class PartsType {
public:
    explicit PartsType(std::span<const Part> parts)
        : one_(parts.size() == 1 ? parts.front().bytes : 0) {
        if (parts.size() == 1) {
            buffer_ = const_cast<std::byte*>(parts.front().data);
            return;
        }
        std::vector<mpi::PlacedDatatype> placed;
        for (const Part& part : parts) placed.push_back({0, mpi::bytes_at(part.data, part.bytes)});
        all_ = mpi::sequence(std::move(placed));
        all_.commit();
    }

    void* buffer() const { return buffer_; }
    int count() const { return is_one() ? one_.count() : 1; }
    MPI_Datatype type() const { return is_one() ? one_.type() : all_.get(); }

private:
    bool is_one() const { return all_.get() == MPI_DATATYPE_NULL; }

    void* buffer_ = MPI_BOTTOM;
    mpi::ByteMessage one_;
    mpi::Datatype all_;  ///< of several parts, counted from MPI_BOTTOM
};

}  // namespace

Messages::~Messages() {
    for (UnderWay& message : under_way_)
        if (message.request != MPI_REQUEST_NULL && mpi::is_running() &&
            !mpi::end(message.request, message.is_send))
            group_.abandon(std::move(message.memory));
}

std::size_t Messages::next(std::shared_ptr<const void> memory, bool is_send) {
    if (unused_.empty()) {
        unused_.push_back(under_way_.size());
        under_way_.emplace_back();
    }
    const std::size_t number = unused_.back();
    unused_.pop_back();
    under_way_[number] = {MPI_REQUEST_NULL, std::move(memory), true, is_send};
    return number;
}

template <class Call>
std::size_t Messages::begin(Call* call, const char* name, std::span<const Part> parts, int rank,
                            std::shared_ptr<const void> memory, bool is_send) {
    const PartsType all(parts);
    const std::size_t number = next(std::move(memory), is_send);
    mpi::check(call(all.buffer(), all.count(), all.type(), rank, tag_, group_.comm(),
                    &under_way_[number].request),
               name);
    return number;
}

std::size_t Messages::send(std::span<const Part> parts, int rank,
                           std::shared_ptr<const void> memory) {
    return begin(MPI_Isend, "MPI_Isend", parts, rank, std::move(memory), true);
}

std::size_t Messages::send_synchronously(const Part& part, int rank,
                                         std::shared_ptr<const void> memory) {
    return begin(MPI_Issend, "MPI_Issend", {&part, 1}, rank, std::move(memory), true);
}

std::size_t Messages::receive(std::span<const Part> parts, int rank,
                              std::shared_ptr<const void> memory) {
    return begin(MPI_Irecv, "MPI_Irecv", parts, rank, std::move(memory), false);
}

std::int64_t Messages::probe(int rank) const {
    int arrived = 0;
    MPI_Status status;
    mpi::check(MPI_Iprobe(rank, tag_, group_.comm(), &arrived, &status), "MPI_Iprobe");
    if (!arrived) return -1;
    MPI_Count bytes = 0;
    mpi::check(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
    return static_cast<std::int64_t>(bytes);
}

bool Messages::is_complete(std::size_t number) {
    UnderWay& message = under_way_[number];
    if (!message.active) return true;
    int done = 0;
    mpi::check(MPI_Test(&message.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done) return false;
    message = {};
    unused_.push_back(number);
    return true;
}

bool Messages::all_complete() {
    if (unused_.size() == under_way_.size()) return true;
    bool all = true;
    for (std::size_t i = 0; i < under_way_.size(); ++i) all = is_complete(i) && all;
    return all;
}

void Messages::wait() {
    for (std::size_t i = 0; i < under_way_.size(); ++i) {
        if (!under_way_[i].active) continue;
        group_.complete(under_way_[i].request, "MPI_Test", mpi::Load::data);
        is_complete(i);
    }
}

namespace {

/// Counts to and from other nodes; completes the exchange of notices, which was posted.
void count_beyond_node(State& s, int tag, NoticeExchange& notices) {
    const auto counts = std::make_shared<std::vector<std::int64_t>>(s.send_counts);
    Messages sends(*s.group, tag);
    for (int r = 0; r < s.nprocs(); ++r) {
        std::int64_t& count = (*counts)[static_cast<std::size_t>(r)];
        if (count == 0 || s.channel->position(r) >= 0) continue;
        sends.send_synchronously({reinterpret_cast<std::byte*>(&count), sizeof count}, r, counts);
    }
    const auto arriving = std::make_shared<std::vector<std::int64_t>>(s.send_counts.size(), 0);
    Messages receives(*s.group, tag);
    bool all_sent = false;
    s.group->wait_until([&] {
        int arrived = 0;
        MPI_Status status;
        mpi::check(MPI_Iprobe(MPI_ANY_SOURCE, tag, s.group->comm(), &arrived, &status),
                   "MPI_Iprobe");
        if (arrived) {
            std::int64_t& count = (*arriving)[static_cast<std::size_t>(status.MPI_SOURCE)];
            receives.receive({reinterpret_cast<std::byte*>(&count), sizeof count},
                             status.MPI_SOURCE, arriving);
            receives.wait();
        }
        if (all_sent) return notices.is_complete();
        all_sent = sends.all_complete();
        if (all_sent) notices.begin();
        return false;
    });
    s.recv_counts = *arriving;
}

}  // namespace

Notices exchange_counts(State& s, NodeSlot& slot, const Notice& mine) {
    NoticeExchange exchange(s, slot, mine);
    propagating_errors(s, [&] {
        s.recv_counts.assign(static_cast<std::size_t>(s.nprocs()), 0);
        if (mine.failed) s.send_counts = s.recv_counts;
        exchange.post(s.send_counts);
        if (s.channel->messages_needed())
            count_beyond_node(s, slot.count_tag(), exchange);
        else
            s.group->wait_until([&] { return exchange.is_complete(); });
        for (int p = 0; p < s.channel->size(); ++p)
            s.recv_counts[static_cast<std::size_t>(s.channel->rank_of(p))] =
                slot.collected()[static_cast<std::size_t>(p)].count;
    });
    return exchange.result();
}

Notices exchange_notices(State& s, NodeSlot& slot, const Notice& mine) {
    NoticeExchange exchange(s, slot, mine);
    propagating_errors(s, [&] {
        exchange.post();
        exchange.begin();
        s.group->wait_until([&] { return exchange.is_complete(); });
    });
    return exchange.result();
}

}  // namespace datamover::distribute

// SPDX-License-Identifier: BSD-3-Clause
// Counts of the elements that go from each process to each other one.
//
// On a node counts go through shared memory. Beyond it only pairs with elements exchange a message;
// that no more are coming is found out by a reduction that starts when all own messages have been
// received (T. Hoefler, C. Siebert, A. Lumsdaine, Scalable Communication Protocols for Dynamic
// Sparse Data Exchange, PPoPP 2010, the NBX algorithm).
#include <memory>

#include "agreement.hpp"
#include "migration_state.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/part_messages.hpp"

namespace datamover::distribute {
namespace {

/// Counts to and from other nodes; completes the exchange of notices, which was posted.
void count_beyond_node(State& s, int tag, NoticeExchange& notices) {
    const auto counts = std::make_shared<std::vector<std::int64_t>>(s.send_counts);
    mpi::Messages sends(*s.group, tag);
    for (int r = 0; r < s.nprocs(); ++r) {
        std::int64_t& count = (*counts)[static_cast<std::size_t>(r)];
        if (count == 0 || s.channel->position(r) >= 0) continue;
        sends.send_synchronously({reinterpret_cast<std::byte*>(&count), sizeof count}, r, counts);
    }
    const auto arriving = std::make_shared<std::vector<std::int64_t>>(s.send_counts.size(), 0);
    mpi::Messages receives(*s.group, tag);
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

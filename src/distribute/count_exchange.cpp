// SPDX-License-Identifier: BSD-3-Clause
// Exchange of element counts, sparse if few processes exchange elements.
//
// On a node counts go through shared memory. Beyond it only pairs with elements exchange a message;
// that no more are coming is found out by a reduction that starts when all own messages have been
// received (T. Hoefler, C. Siebert, A. Lumsdaine, Scalable Communication Protocols for Dynamic
// Sparse Data Exchange, PPoPP 2010, the NBX algorithm).
#include <memory>
#include <optional>

#include "distribution_state.hpp"
#include "messages.hpp"
#include "mpi/checked_call.hpp"
#include "notices.hpp"

namespace datamover::distribute {
namespace {

/// Counts to and from other nodes, and the notices of all processes.
Notices exchange_beyond_node(State& s, const Notice& notice, int tag) {
    const auto counts = std::make_shared<std::vector<std::int64_t>>(s.send_counts);
    Messages sends(*s.group, tag);
    for (int r = 0; r < s.nprocs() && !notice.failed; ++r) {
        std::int64_t& count = (*counts)[static_cast<std::size_t>(r)];
        if (count == 0 || s.channel->position(r) >= 0) continue;
        sends.send_synchronously({reinterpret_cast<std::byte*>(&count), sizeof count}, r, counts);
    }
    const auto arriving = std::make_shared<std::vector<std::int64_t>>(s.send_counts.size(), 0);
    Messages receives(*s.group, tag);
    NoticeReduction closing(*s.group, notice);
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
        if (closing.has_begun()) return closing.is_complete();
        if (sends.all_complete()) closing.begin();
        return false;
    });
    s.recv_counts = *arriving;
    return closing.result();
}

Notices told_counts(State& s, NodeSlot& slot, const Notice& mine) {
    s.recv_counts.assign(static_cast<std::size_t>(s.nprocs()), 0);
    if (mine.failed) s.send_counts.assign(s.recv_counts.size(), 0);
    const NodeChannel& channel = *s.channel;
    std::vector<NodeSlot::Numbers> numbers;
    for (int p = 0; p < channel.size(); ++p)
        numbers.push_back(
            {s.send_counts[static_cast<std::size_t>(channel.rank_of(p))], packed(mine)});
    slot.post(numbers);
    std::optional<Notices> all;
    if (channel.messages_needed()) all = exchange_beyond_node(s, mine, slot.count_tag());
    s.group->wait_until([&] { return slot.collect(); });
    for (int p = 0; p < channel.size(); ++p)
        s.recv_counts[static_cast<std::size_t>(channel.rank_of(p))] =
            slot.collected()[static_cast<std::size_t>(p)].count;
    return all ? *all : collected_notices(s, slot, mine);
}

}  // namespace

Notices exchange_counts(State& s, NodeSlot& slot, const Notice& mine) {
    Notices all;
    propagating_errors(s, [&] { all = told_counts(s, slot, mine); });
    return all;
}

Notices exchange_notices(State& s, NodeSlot& slot, const Notice& mine) {
    NoticeExchange exchange(s, slot, mine);
    propagating_errors(s, [&] {
        exchange.begin();
        s.group->wait_until([&] { return exchange.is_complete(); });
    });
    return exchange.result();
}

}  // namespace datamover::distribute

// SPDX-License-Identifier: BSD-3-Clause
// How does every process learn how many elements come to it, without asking all others?
//
// On a node counts go through shared memory. Beyond it only pairs with elements exchange a message;
// that no more are coming is found out by a reduction that starts when all own messages have been
// received (T. Hoefler, C. Siebert, A. Lumsdaine, Scalable Communication Protocols for Dynamic
// Sparse Data Exchange, PPoPP 2010, the NBX algorithm).
#include <array>

#include "distribution_state.hpp"
#include "mpi/checked_call.hpp"

namespace datamover::distribute {
namespace {

/// A notice as numbers of which the largest of all processes tells all.
using NoticeNumbers = std::array<std::int64_t, 4>;

NoticeNumbers numbers_of(const Notice& mine) {
    return {mine.failed ? 1 : 0, mine.limited ? 1 : 0, mine.signature, -mine.signature};
}

Notices notices_of(const NoticeNumbers& largest) {
    return {largest[0] != 0, largest[1] != 0, largest[2] != -largest[3]};
}

/// Counts to and from other nodes, and the notices of all processes.
Notices exchange_beyond_node(State& s, const Notice& notice, int tag) {
    const bool failed = notice.failed;
    const MPI_Comm comm = s.group->comm();
    std::vector<MPI_Request> sends;
    for (int r = 0; r < s.nprocs() && !failed; ++r) {
        const auto i = static_cast<std::size_t>(r);
        if (s.send_counts[i] == 0 || s.channel->position(r) >= 0) continue;
        sends.push_back(MPI_REQUEST_NULL);
        mpi::check(MPI_Issend(&s.send_counts[i], 1, MPI_INT64_T, r, tag, comm, &sends.back()),
                   "MPI_Issend");
    }
    const NoticeNumbers mine = numbers_of(notice);
    NoticeNumbers largest{};
    int done = 0;
    bool closing = false;
    MPI_Request close = MPI_REQUEST_NULL;
    while (!done) {
        int arrived = 0;
        MPI_Status status;
        mpi::check(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &arrived, &status), "MPI_Iprobe");
        if (arrived)
            mpi::check(MPI_Recv(&s.recv_counts[static_cast<std::size_t>(status.MPI_SOURCE)], 1,
                                MPI_INT64_T, status.MPI_SOURCE, tag, comm, MPI_STATUS_IGNORE),
                       "MPI_Recv");
        if (closing) {
            mpi::check(MPI_Test(&close, &done, MPI_STATUS_IGNORE), "MPI_Test");
            continue;
        }
        int received = 0;
        mpi::check(MPI_Testall(mpi::to_int(static_cast<std::int64_t>(sends.size()), "messages"),
                               sends.data(), &received, MPI_STATUSES_IGNORE),
                   "MPI_Testall");
        if (!received) continue;
        mpi::check(MPI_Iallreduce(mine.data(), largest.data(), static_cast<int>(mine.size()),
                                  MPI_INT64_T, MPI_MAX, comm, &close),
                   "MPI_Iallreduce");
        closing = true;
    }
    return notices_of(largest);
}

/// On the node a notice is one number: two bits, and the signature above them.
std::int64_t packed(const Notice& mine) {
    return mine.signature * 4 + (mine.limited ? 2 : 0) + (mine.failed ? 1 : 0);
}

void merge(Notices& all, const Notice& mine, std::int64_t theirs) {
    all.failed = all.failed || theirs % 2 != 0;
    all.limited = all.limited || theirs / 2 % 2 != 0;
    all.differ = all.differ || theirs / 4 != mine.signature;
}

}  // namespace

Notices exchange_counts(State& s, const Notice& mine) {
    const int tag = s.group->next_tag();
    s.recv_counts.assign(static_cast<std::size_t>(s.nprocs()), 0);
    std::vector<NodeChannel::Numbers> numbers(static_cast<std::size_t>(s.channel->size()));
    for (int p = 0; p < s.channel->size(); ++p) {
        const auto rank = static_cast<std::size_t>(s.channel->rank_of(p));
        numbers[static_cast<std::size_t>(p)] = {mine.failed ? 0 : s.send_counts[rank],
                                                packed(mine)};
    }
    s.channel->post(numbers);
    Notices all{mine.failed, mine.limited, false};
    if (s.channel->messages_needed()) all = exchange_beyond_node(s, mine, tag);
    const auto told = s.channel->collect();
    for (int p = 0; p < s.channel->size(); ++p) {
        if (p == s.channel->me()) continue;
        s.recv_counts[static_cast<std::size_t>(s.channel->rank_of(p))] =
            told[static_cast<std::size_t>(p)].count;
        merge(all, mine, told[static_cast<std::size_t>(p)].status);
    }
    if (!mine.failed)
        s.recv_counts[static_cast<std::size_t>(s.rank())] =
            s.send_counts[static_cast<std::size_t>(s.rank())];
    return all;
}

Notices exchange_notices(State& s, const Notice& mine) {
    if (s.channel->messages_needed()) {
        const NoticeNumbers numbers = numbers_of(mine);
        NoticeNumbers largest{};
        mpi::check(MPI_Allreduce(numbers.data(), largest.data(), static_cast<int>(numbers.size()),
                                 MPI_INT64_T, MPI_MAX, s.group->comm()),
                   "MPI_Allreduce");
        return notices_of(largest);
    }
    s.channel->post(std::vector<NodeChannel::Numbers>(static_cast<std::size_t>(s.channel->size()),
                                                      {0, packed(mine)}));
    Notices all{mine.failed, mine.limited, false};
    const auto told = s.channel->collect();
    for (int p = 0; p < s.channel->size(); ++p)
        if (p != s.channel->me()) merge(all, mine, told[static_cast<std::size_t>(p)].status);
    return all;
}

}  // namespace datamover::distribute

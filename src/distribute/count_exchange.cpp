// SPDX-License-Identifier: BSD-3-Clause
// How does every process learn how many elements come to it, without asking all others?
//
// On a node counts go through shared memory. Beyond it only pairs with elements exchange a message;
// that no more are coming is found out by a reduction that starts when all own messages have been
// received (T. Hoefler, C. Siebert, A. Lumsdaine, Scalable Communication Protocols for Dynamic
// Sparse Data Exchange, PPoPP 2010, the NBX algorithm).
#include "distribution_state.hpp"
#include "mpi/checked_call.hpp"

namespace datamover::distribute {
namespace {

/// Counts to and from other nodes; true when anybody failed.
bool exchange_beyond_node(State& s, bool failed, int tag) {
    const MPI_Comm comm = s.group->comm();
    std::vector<MPI_Request> sends;
    for (int r = 0; r < s.nprocs() && !failed; ++r) {
        const auto i = static_cast<std::size_t>(r);
        if (s.send_counts[i] == 0 || s.channel->position(r) >= 0) continue;
        sends.push_back(MPI_REQUEST_NULL);
        mpi::check(MPI_Issend(&s.send_counts[i], 1, MPI_INT64_T, r, tag, comm, &sends.back()),
                   "MPI_Issend");
    }
    int mine = failed ? 1 : 0, any = 0, done = 0;
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
        mpi::check(MPI_Iallreduce(&mine, &any, 1, MPI_INT, MPI_MAX, comm, &close),
                   "MPI_Iallreduce");
        closing = true;
    }
    return any != 0;
}

std::vector<NodeChannel::Numbers> numbers_for_node(const State& s, bool failed) {
    std::vector<NodeChannel::Numbers> numbers(static_cast<std::size_t>(s.channel->size()));
    for (int p = 0; p < s.channel->size(); ++p) {
        const auto rank = static_cast<std::size_t>(s.channel->rank_of(p));
        numbers[static_cast<std::size_t>(p)] = {failed ? 0 : s.send_counts[rank], failed ? 1 : 0};
    }
    return numbers;
}

}  // namespace

bool exchange_counts(State& s, bool failed) {
    const int tag = s.group->next_tag();
    s.recv_counts.assign(static_cast<std::size_t>(s.nprocs()), 0);
    s.channel->post(numbers_for_node(s, failed));
    bool any = failed;
    if (s.channel->messages_needed()) any = exchange_beyond_node(s, failed, tag);
    const auto told = s.channel->collect();
    for (int p = 0; p < s.channel->size(); ++p) {
        if (p == s.channel->me()) continue;
        s.recv_counts[static_cast<std::size_t>(s.channel->rank_of(p))] =
            told[static_cast<std::size_t>(p)].count;
        any = any || told[static_cast<std::size_t>(p)].status != 0;
    }
    if (!failed)
        s.recv_counts[static_cast<std::size_t>(s.rank())] =
            s.send_counts[static_cast<std::size_t>(s.rank())];
    return any;
}

bool anybody(State& s, bool failed) {
    if (s.channel->messages_needed()) {
        int mine = failed ? 1 : 0, any = 0;
        mpi::check(MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, s.group->comm()),
                   "MPI_Allreduce");
        return any != 0;
    }
    s.channel->post(numbers_for_node(s, failed));
    bool any = failed;
    for (const auto& told : s.channel->collect()) any = any || told.status != 0;
    return any;
}

}  // namespace datamover::distribute

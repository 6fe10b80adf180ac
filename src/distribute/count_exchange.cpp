// SPDX-License-Identifier: BSD-3-Clause
// How does every process learn how many elements come to it, without asking all others?
//
// On a node counts go through shared memory. Beyond it only pairs with elements exchange a message;
// that no more are coming is found out by a reduction that starts when all own messages have been
// received (T. Hoefler, C. Siebert, A. Lumsdaine, Scalable Communication Protocols for Dynamic
// Sparse Data Exchange, PPoPP 2010, the NBX algorithm).
#include <array>
#include <memory>
#include <optional>

#include "distribution_state.hpp"
#include "messages.hpp"
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

/// The reduction that tells the notices of all processes.
class NoticeReduction {
public:
    NoticeReduction(const mpi::ProcessGroup& group, const Notice& mine) : group_(group) {
        buffers_->mine = numbers_of(mine);
    }
    ~NoticeReduction() {
        if (request_ != MPI_REQUEST_NULL) group_.abandon(buffers_);
    }
    NoticeReduction(const NoticeReduction&) = delete;
    NoticeReduction& operator=(const NoticeReduction&) = delete;

    bool has_begun() const { return begun_; }
    void begin() {
        begun_ = true;
        mpi::check(MPI_Iallreduce(buffers_->mine.data(), buffers_->largest.data(),
                                  static_cast<int>(buffers_->mine.size()), MPI_INT64_T, MPI_MAX,
                                  group_.comm(), &request_),
                   "MPI_Iallreduce");
    }
    bool is_complete() {
        int done = 0;
        mpi::check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
        return done != 0;
    }
    Notices result() const { return notices_of(buffers_->largest); }

private:
    struct Buffers {
        NoticeNumbers mine{}, largest{};
    };
    const mpi::ProcessGroup& group_;
    std::shared_ptr<Buffers> buffers_ = std::make_shared<Buffers>();
    MPI_Request request_ = MPI_REQUEST_NULL;
    bool begun_ = false;
};

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
    wait_until(s, [&] {
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

/// On the node a notice is one number: two bits, and the signature above them.
std::int64_t packed(const Notice& mine) {
    return mine.signature * 4 + (mine.limited ? 2 : 0) + (mine.failed ? 1 : 0);
}

void merge(Notices& all, const Notice& mine, std::int64_t theirs) {
    all.failed = all.failed || theirs % 2 != 0;
    all.limited = all.limited || theirs / 2 % 2 != 0;
    all.differ = all.differ || theirs / 4 != mine.signature;
}

/// The notices that have come through a slot.
Notices collected_notices(const State& s, const NodeSlot& slot, const Notice& mine) {
    Notices all{mine.failed, mine.limited, false};
    for (int p = 0; p < s.channel->size(); ++p)
        if (p != s.channel->me())
            merge(all, mine, slot.collected()[static_cast<std::size_t>(p)].status);
    return all;
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
    wait_until(s, [&] { return slot.collect(); });
    for (int p = 0; p < channel.size(); ++p)
        s.recv_counts[static_cast<std::size_t>(channel.rank_of(p))] =
            slot.collected()[static_cast<std::size_t>(p)].count;
    return all ? *all : collected_notices(s, slot, mine);
}

Notices told_notices(State& s, NodeSlot& slot, const Notice& mine) {
    slot.post(std::vector<NodeSlot::Numbers>(static_cast<std::size_t>(s.channel->size()),
                                             {0, packed(mine)}));
    if (!s.channel->messages_needed()) {
        wait_until(s, [&] { return slot.collect(); });
        return collected_notices(s, slot, mine);
    }
    NoticeReduction reduction(*s.group, mine);
    reduction.begin();
    wait_until(s, [&] { return reduction.is_complete(); });
    return reduction.result();
}

}  // namespace

Notices exchange_counts(State& s, NodeSlot& slot, const Notice& mine) {
    Notices all;
    telling_failures(s, [&] { all = told_counts(s, slot, mine); });
    return all;
}

Notices exchange_notices(State& s, NodeSlot& slot, const Notice& mine) {
    Notices all;
    telling_failures(s, [&] { all = told_notices(s, slot, mine); });
    return all;
}

}  // namespace datamover::distribute

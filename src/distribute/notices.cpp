// SPDX-License-Identifier: BSD-3-Clause
// Exchange of notices between all processes.
#include "notices.hpp"

#include "mpi/checked_call.hpp"

namespace datamover::distribute {
namespace {

void merge(Notices& all, const Notice& mine, std::int64_t theirs) {
    all.failed = all.failed || theirs % 2 != 0;
    all.limited = all.limited || theirs / 2 % 2 != 0;
    all.differ = all.differ || theirs / 4 != mine.signature;
}

}  // namespace

/// Two bits, and the signature above them.
std::int64_t packed(const Notice& mine) {
    return mine.signature * 4 + (mine.limited ? 2 : 0) + (mine.failed ? 1 : 0);
}

Notices collected_notices(const State& s, const NodeSlot& slot, const Notice& mine) {
    Notices all{mine.failed, mine.limited, false};
    for (int p = 0; p < s.channel->size(); ++p)
        if (p != s.channel->me())
            merge(all, mine, slot.collected()[static_cast<std::size_t>(p)].status);
    return all;
}

NoticeReduction::NoticeReduction(const mpi::ProcessGroup& group, const Notice& mine)
    : group_(group) {
    buffers_->mine = {mine.failed ? 1 : 0, mine.limited ? 1 : 0, mine.signature, -mine.signature};
}

NoticeReduction::~NoticeReduction() {
    if (request_ != MPI_REQUEST_NULL) group_.abandon(buffers_);
}

void NoticeReduction::begin() {
    begun_ = true;
    mpi::check(MPI_Iallreduce(buffers_->mine.data(), buffers_->largest.data(),
                              static_cast<int>(buffers_->mine.size()), MPI_INT64_T, MPI_MAX,
                              group_.comm(), &request_),
               "MPI_Iallreduce");
}

bool NoticeReduction::is_complete() {
    int done = 0;
    mpi::check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
}

Notices NoticeReduction::result() const {
    const Numbers& largest = buffers_->largest;
    return {largest[0] != 0, largest[1] != 0, largest[2] != -largest[3]};
}

NoticeExchange::NoticeExchange(const State& state, NodeSlot& slot, const Notice& mine)
    : s_(state), slot_(slot), mine_(mine) {
    if (state.channel->messages_needed()) reduction_.emplace(*state.group, mine);
}

void NoticeExchange::begin() {
    slot_.post(std::vector<NodeSlot::Numbers>(static_cast<std::size_t>(s_.channel->size()),
                                              {0, packed(mine_)}));
    if (reduction_) reduction_->begin();
}

bool NoticeExchange::is_complete() {
    return reduction_ ? reduction_->is_complete() : slot_.collect();
}

Notices NoticeExchange::result() const {
    return reduction_ ? reduction_->result() : collected_notices(s_, slot_, mine_);
}

}  // namespace datamover::distribute

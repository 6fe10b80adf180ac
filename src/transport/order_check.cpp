// SPDX-License-Identifier: BSD-3-Clause
// Check that processes of different nodes use their turns for the same movers.
#include "order_check.hpp"

#include <utility>

#include "geometry/make_error.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/failure_board.hpp"

namespace datamover::transport {
namespace {

/// On the communicator of turns there are no other messages.
constexpr int tag = 0;

}  // namespace

OrderCheck::OrderCheck(mpi::ProcessGroupPtr group, int number)
    : group_(std::move(group)),
      before_((group_->rank() + group_->size() - 1) % group_->size()),
      numbers_(std::make_shared<Numbers>(Numbers{number, 0})) {
    const int after = (group_->rank() + 1) % group_->size();
    const auto is_far = [&](int rank) { return group_->node_position(rank) < 0; };
    if (is_far(before_)) {
        received_ = {true, false, requests_.size()};
        requests_.add_receive(&numbers_->theirs, sizeof numbers_->theirs, before_, tag,
                              group_->ticket_comm());
    }
    if (is_far(after)) {
        sent_ = {true, false, requests_.size()};
        requests_.add_send(&numbers_->own, sizeof numbers_->own, after, tag, group_->ticket_comm());
    }
}

OrderCheck::~OrderCheck() {
    bool have_ended = true;
    for (std::size_t i = 0; i < requests_.size(); ++i) have_ended = requests_.free(i) && have_ended;
    if (!have_ended) group_->abandon(numbers_);
}

void OrderCheck::begin() {
    for (Message* message : {&received_, &sent_}) {
        if (!message->is_there) continue;
        MPI_Request request = requests_[message->request];
        mpi::check(MPI_Start(&request), "MPI_Start");
        message->is_under_way = true;
    }
}

bool OrderCheck::has_ended(Message& message) {
    if (!message.is_under_way) return true;
    MPI_Request request = requests_[message.request];
    int ended = 0;
    mpi::check(MPI_Test(&request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
    message.is_under_way = ended == 0;
    return ended != 0;
}

bool OrderCheck::is_done() {
    const bool hears = received_.is_under_way;
    const bool has_heard = has_ended(received_);
    if (hears && has_heard && numbers_->theirs != numbers_->own)
        throw mpi::another_order(group_->rank(), concat("process ", before_));
    return has_ended(sent_) && has_heard;
}

}  // namespace datamover::transport

// SPDX-License-Identifier: BSD-3-Clause
// The alarm: a process makes the others stop independent work.
#include "alarm.hpp"

#include <utility>

#include "checked_call.hpp"

namespace datamover::mpi {

Alarm::Alarm(ProcessGroupPtr group) : group_(std::move(group)), tag_(claim_tags(*group_, 1)) {}

void Alarm::ring() {
    if (has_rung_) return;
    has_rung_ = true;
    try {
        group_->keep(tag_);  // what is sent may never be received
        for (int rank = 0; rank < group_->size(); ++rank)
            if (rank != group_->rank()) send(rank);
    } catch (...) {
        group_->fail(current_error(*group_));  // the others would wait for what was not sent
        throw;
    }
}

void Alarm::send(int rank) const {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(nullptr, 0, MPI_BYTE, rank, *tag_, group_->comm(), &request), "MPI_Isend");
    check(MPI_Request_free(&request), "MPI_Request_free");
}

bool Alarm::rings() const {
    group_->check_alive_while_waiting();
    int arrived = 0;
    check(MPI_Iprobe(MPI_ANY_SOURCE, *tag_, group_->comm(), &arrived, MPI_STATUS_IGNORE),
          "MPI_Iprobe");
    return arrived != 0;
}

void Alarm::settle() {
    const auto rang = group_->gather({has_rung_ ? 1 : 0});
    for (int rank = 0; rank < group_->size(); ++rank) {
        if (rank == group_->rank() || rang[static_cast<std::size_t>(rank)][0] == 0) continue;
        group_->carry_out("MPI_Irecv", nullptr, [&](MPI_Request* request) {
            return MPI_Irecv(nullptr, 0, MPI_BYTE, rank, *tag_, group_->comm(), request);
        });
    }
}

}  // namespace datamover::mpi

// SPDX-License-Identifier: BSD-3-Clause
// Completion of a transport's active MPI requests.
#include "active_requests.hpp"

#include "checked_call.hpp"

namespace datamover::mpi {

void ActiveRequests::assign(std::size_t count) {
    requests_.assign(count, MPI_REQUEST_NULL);
    ended_.assign(count, 0);  // of one request, this is what has ended
    statuses_.resize(count);
}

/// MPI says of a persistent request that is not under way that it has ended: forgotten here once it
/// has.
bool ActiveRequests::has_ended(MPI_Request& request) {
    if (request == MPI_REQUEST_NULL) return false;
    int ended = 0;
    check(MPI_Test(&request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
    if (ended != 0) request = MPI_REQUEST_NULL;
    return ended != 0;
}

std::span<const int> ActiveRequests::ended() {
    if (requests_.size() == 1) return std::span(ended_).first(has_ended(requests_.front()) ? 1 : 0);
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                  ended_.data(), statuses_.data());
    if (is_of_class(code, MPI_ERR_IN_STATUS))
        for (int k = 0; k < count; ++k)
            check(statuses_[static_cast<std::size_t>(k)].MPI_ERROR, "MPI_Testsome");
    check(code, "MPI_Testsome");
    // Without a request under way the count is MPI_UNDEFINED, below 0.
    return std::span(ended_).first(count > 0 ? static_cast<std::size_t>(count) : 0);
}

}  // namespace datamover::mpi

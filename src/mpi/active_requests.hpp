// SPDX-License-Identifier: BSD-3-Clause
// Completion of a transport's active MPI requests.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <vector>

namespace datamover::mpi {

/// Room for requests that are tested together; MPI_REQUEST_NULL where none is under way.
class ActiveRequests {
public:
    void assign(std::size_t count);
    std::size_t size() const { return requests_.size(); }
    MPI_Request& operator[](std::size_t i) { return requests_[i]; }
    MPI_Request* data() { return requests_.data(); }
    /// The numbers of those that have ended since the last call, valid until the next one. Throws
    /// what MPI says of any of them. Allocates nothing.
    std::span<const int> ended();

private:
    static bool has_ended(MPI_Request& request);

    std::vector<MPI_Request> requests_;
    std::vector<int> ended_;
    std::vector<MPI_Status> statuses_;
};

}  // namespace datamover::mpi

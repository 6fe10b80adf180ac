// SPDX-License-Identifier: BSD-3-Clause
// Waiting until all processes of a communicator have arrived, before MPI calls that cannot be
// abandoned.
//
// A non-blocking barrier on the user's communicator, which is all there is at first, then a
// non-blocking duplication. Where a process gives up in the barrier, those that come later find it
// missing in the duplication. What was begun stays with the communicator: it has to be completed
// before another.
#include "arrival.hpp"

#include <memory>

#include "attribute.hpp"
#include "geometry/make_error.hpp"
#include "waiting.hpp"

namespace datamover::mpi {
namespace {

/// How far a communicator's first use has come on this process.
struct Arrival {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm duplicate = MPI_COMM_NULL;
    bool all_came = false;
};

/// The arrival that was begun with the communicator and not completed; a new one where none was.
Arrival& arrival_at(MPI_Comm comm) {
    if (Arrival* const found = Attribute<Arrival>::find(comm)) return *found;
    return Attribute<Arrival>::keep(comm, std::make_unique<Arrival>());
}

void complete(MPI_Request& request) {
    Waiting waiting(Processors::shared);
    while (true) {
        int done = 0;
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (done) return;
        waiting.pause();
        if (push_other_work()) waiting.restart();
        if (waiting.expired())
            throw make_error(ErrorCode::timeout, "this process waited ", waiting.timeout_seconds(),
                             " s for the other processes to use the communicator");
    }
}

}  // namespace

MPI_Comm duplicate_when_all_came(MPI_Comm comm) {
    Arrival& arrival = arrival_at(comm);
    if (!arrival.all_came) {
        if (arrival.request == MPI_REQUEST_NULL)
            check(MPI_Ibarrier(comm, &arrival.request), "MPI_Ibarrier");
        complete(arrival.request);
        arrival.all_came = true;
    }
    if (arrival.request == MPI_REQUEST_NULL)
        check(MPI_Comm_idup(comm, &arrival.duplicate, &arrival.request), "MPI_Comm_idup");
    complete(arrival.request);
    const MPI_Comm duplicate = arrival.duplicate;
    Attribute<Arrival>::drop(comm);
    return duplicate;
}

}  // namespace datamover::mpi

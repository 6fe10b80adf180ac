// SPDX-License-Identifier: BSD-3-Clause
// Have all processes of a communicator come, so that calls of MPI that cannot be given up return?
//
// A non-blocking barrier on the user's communicator, which is all there is at first. Where a
// process gives up waiting, the barrier stays with the communicator: begun once, it has to be
// completed before another.
#include "arrival.hpp"

#include <memory>
#include <string>

#include "checked_call.hpp"
#include "datamover/error.hpp"
#include "waiting.hpp"

namespace datamover::mpi {
namespace {

constexpr int spins = 16;

int drop_request(MPI_Comm, int, void* value, void*) {
    delete static_cast<MPI_Request*>(value);
    return MPI_SUCCESS;
}

int barrier_key() {
    static const int key = [] {
        int made = MPI_KEYVAL_INVALID;
        check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, drop_request, &made, nullptr),
              "MPI_Comm_create_keyval");
        return made;
    }();
    return key;
}

/// The barrier that was begun with the communicator and not completed; begins one where none was.
MPI_Request& barrier_of(MPI_Comm comm) {
    void* found = nullptr;
    int present = 0;
    check(MPI_Comm_get_attr(comm, barrier_key(), static_cast<void*>(&found), &present),
          "MPI_Comm_get_attr");
    if (present) return *static_cast<MPI_Request*>(found);
    auto request = std::make_unique<MPI_Request>(MPI_REQUEST_NULL);
    check(MPI_Ibarrier(comm, request.get()), "MPI_Ibarrier");
    check(MPI_Comm_set_attr(comm, barrier_key(), request.get()), "MPI_Comm_set_attr");
    return *request.release();
}

}  // namespace

void wait_for_arrival(MPI_Comm comm) {
    MPI_Request& barrier = barrier_of(comm);
    Waiting waiting(spins);
    for (int done = 0;;) {
        check(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (done) break;
        waiting.pause();
        if (push_other_work()) waiting.restart();
        if (waiting.expired())
            throw Error(ErrorCode::timeout,
                        "this process waited " + std::to_string(waiting.timeout_seconds()) +
                            " s for the other processes to use the communicator");
    }
    check(MPI_Comm_delete_attr(comm, barrier_key()), "MPI_Comm_delete_attr");
}

}  // namespace datamover::mpi

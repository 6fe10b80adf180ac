// SPDX-License-Identifier: BSD-3-Clause
// The first and the last use of a communicator by all its processes.
//
// First come calls of MPI that cannot be abandoned, so all processes have to arrive before: a
// non-blocking barrier on the user's communicator, which is all there is then, and a non-blocking
// duplication. Where a process gives up in the barrier, those that come later find it
// missing in the duplication. What was begun stays with the communicator: it has to be completed
// before another.
#include "arrival.hpp"

#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "attribute.hpp"
#include "byte_message.hpp"
#include "checked_call.hpp"
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

/// Communicators that this process has left.
struct Left {
    std::vector<MPI_Comm> comms;
    MPI_Request all_left = MPI_REQUEST_NULL;

    bool by_all() {
        int done = 0;
        return MPI_Test(&all_left, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0;
    }
};

struct LeftByThisProcess {
    std::mutex lock;
    std::list<Left> list;
};

/// Never destroyed: groups are destroyed when MPI ends, which may be after all else.
LeftByThisProcess& left_by_this_process() {
    static auto* const left = new LeftByThisProcess;
    return *left;
}

}  // namespace

void free_when_all_left(std::vector<MPI_Comm> comms) noexcept try {
    std::list<Left> last(1);
    last.front().comms = std::move(comms);
    if (MPI_Ibarrier(last.front().comms.front(), &last.front().all_left) != MPI_SUCCESS) return;
    {
        LeftByThisProcess& left = left_by_this_process();
        const std::lock_guard lock(left.lock);
        left.list.splice(left.list.end(), last);
    }
    free_left();
} catch (...) {
    // Without memory they stay as they are.
}

void free_left() noexcept {
    if (!is_running() || is_ending()) return;
    std::list<Left> by_all;  // is freed without the lock: attributes of the user's may call back
    {
        LeftByThisProcess& left = left_by_this_process();
        const std::lock_guard lock(left.lock);
        for (auto entry = left.list.begin(); entry != left.list.end();) {
            const auto next = std::next(entry);
            if (entry->by_all()) by_all.splice(by_all.end(), left.list, entry);
            entry = next;
        }
    }
    for (Left& entry : by_all)
        for (MPI_Comm& comm : entry.comms) MPI_Comm_free(&comm);
}

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

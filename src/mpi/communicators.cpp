// SPDX-License-Identifier: BSD-3-Clause
// Communicators: values kept with them, their first and last use by all processes, parts of a
// group.
#include "communicators.hpp"

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "byte_message.hpp"
#include "checked_call.hpp"
#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "waiting.hpp"

namespace datamover::mpi {
namespace {

/// How far a communicator's first use has come on this process.
///
/// Operations on the user's communicator cannot be abandoned, so all processes have to arrive
/// first: a non-blocking barrier, then a non-blocking duplication. If a process gives up in the
/// barrier, later processes find it missing in the duplication. An operation that has begun stays
/// with the communicator: it has to be completed before another.
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
    const auto is_done = [&] {
        int done = 0;
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        return done != 0;
    };
    wait(waiting, is_done, [&] {
        throw make_error(ErrorCode::timeout, "this process waited ", waiting.timeout_seconds(),
                         " s for the other processes to use the communicator");
    });
}

/// Communicators that this process has left.
struct Left {
    LeftCommunicators comms;
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

/// Never destroyed: groups are destroyed when MPI ends, which may be after all else. Takes no
/// memory, of which there may be none.
LeftByThisProcess& left_by_this_process() {
    alignas(LeftByThisProcess) static std::byte place[sizeof(LeftByThisProcess)];
    static auto* const left = new (place) LeftByThisProcess;
    return *left;
}

}  // namespace

void free(LeftCommunicators& comms) noexcept {
    for (MPI_Comm& comm : comms)
        if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
}

void free_when_all_left(const LeftCommunicators& comms) noexcept try {
    std::list<Left> last{{comms}};
    if (MPI_Ibarrier(comms.front(), &last.front().all_left) != MPI_SUCCESS) return;
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
    for (Left& entry : by_all) free(entry.comms);
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

MPI_Comm split(const ProcessGroup& group, int part) {
    MPI_Comm made = MPI_COMM_NULL;
    check(MPI_Comm_split(group.comm(), part, group.rank(), &made), "MPI_Comm_split");
    check(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return made;
}

namespace {

/// The communicators of parts of one group, least recently used first.
struct PartCommunicators {
    static constexpr std::size_t most = 16;
    struct Entry {
        std::int64_t digest = 0;  ///< of the parts of all processes
        std::shared_ptr<const MPI_Comm> communicator;
    };
    std::vector<Entry> entries;

    /// Drops the communicator that has not been used for the longest time, of those that no process
    /// uses. False if all are in use.
    bool make_room(const ProcessGroup& group) {
        if (entries.size() < most) return true;
        std::vector<std::int64_t> used;
        for (const Entry& entry : entries) used.push_back(entry.communicator.use_count() > 1);
        used = group.maximum(std::move(used));
        const auto unused = std::ranges::find(used, 0);
        if (unused == used.end()) return false;
        entries.erase(entries.begin() + (unused - used.begin()));
        return true;
    }
};

}  // namespace

std::shared_ptr<const MPI_Comm> part_communicator(const ProcessGroup& group,
                                                  std::span<const std::int64_t> parts) {
    const auto kept =
        group.extension<PartCommunicators>([] { return std::make_shared<PartCommunicators>(); });
    auto& entries = kept->entries;
    geometry::WordDigest words;
    words.put_all(parts);
    const auto known = std::ranges::find(entries, words.value(), &PartCommunicators::Entry::digest);
    if (known != entries.end()) {
        std::rotate(known, known + 1, entries.end());
        return entries.back().communicator;
    }
    const int part = to_int(parts[static_cast<std::size_t>(group.rank())], "rank");
    if (!kept->make_room(group)) return nullptr;
    std::shared_ptr<const MPI_Comm> made;
    // MPI makes communicators in a call that cannot be abandoned, so no process enters it before
    // all others have arrived: one whose reduction failed does not, and has notified the others.
    // On one node that takes no call of MPI, which could fail in turn.
    group.all_equal(0);
    collectively(group, [&] {
        made = {new MPI_Comm(split(group, part)), [](MPI_Comm* comm) {
                    if (is_running()) MPI_Comm_free(comm);
                    delete comm;
                }};
    });
    entries.push_back({words.value(), made});
    return made;
}

}  // namespace datamover::mpi

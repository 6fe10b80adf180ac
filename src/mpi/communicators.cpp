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
    MPI_Comm comm;
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

/// The communicators of a group that movers use, or have used.
struct OwnCommunicators {
    /// From `many` on, unused ones are freed before more are made; `most` may exist: MPICH has
    /// 2048.
    static constexpr std::size_t many = 16, most = 512;
    struct Entry {
        std::int64_t digest = 0;  ///< of the parts of all processes
        std::shared_ptr<const MPI_Comm> communicator;
    };
    std::vector<Entry> entries;
};

}  // namespace

void free_when_all_left(MPI_Comm comm) noexcept try {
    std::list<Left> last{{comm}};
    if (MPI_Ibarrier(comm, &last.front().all_left) != MPI_SUCCESS) return;
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
    for (Left& entry : by_all) MPI_Comm_free(&entry.comm);
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

std::shared_ptr<const MPI_Comm> claim_communicator(const ProcessGroup& group,
                                                   std::span<const std::int64_t> parts) {
    auto& entries =
        group.extension<OwnCommunicators>([] { return std::make_shared<OwnCommunicators>(); })
            ->entries;
    geometry::WordDigest words;
    words.put_all(parts);
    // Processes give communicators back at different times. The last number is there for the
    // reduction alone: MPI divides communicators in a call that cannot be abandoned, so no process
    // enters it before all others have arrived. One whose reduction failed does not, and has
    // notified the others.
    std::vector<std::int64_t> used;
    for (const auto& entry : entries) used.push_back(entry.communicator.use_count() > 1);
    used.push_back(true);
    used = group.maximum(std::move(used));
    for (std::size_t i = 0; i < entries.size(); ++i)
        if (!used[i] && entries[i].digest == words.value()) return entries[i].communicator;
    const auto unused = std::ranges::find(used, 0);
    if (entries.size() >= OwnCommunicators::many && unused != used.end())
        entries.erase(entries.begin() + (unused - used.begin()));
    if (entries.size() >= OwnCommunicators::most)
        throw make_error(ErrorCode::unsupported, "movers with collective transports use ",
                         entries.size(),
                         " communicators of MPI, the most there may be; free "
                         "movers that are no longer used");
    std::shared_ptr<MPI_Comm> made;
    collectively(group, [&] {
        entries.reserve(entries.size() + 1);
        made = {new MPI_Comm(MPI_COMM_NULL), [](MPI_Comm* comm) {
                    if (*comm != MPI_COMM_NULL && is_running()) MPI_Comm_free(comm);
                    delete comm;
                }};
    });
    if (parts.empty())
        group.carry_out("MPI_Comm_idup", made, [&](MPI_Comm, MPI_Request* request) {
            return MPI_Comm_idup(group.comm(), made.get(), request);
        });
    collectively(group, [&] {
        if (!parts.empty())
            *made = split(group, to_int(parts[static_cast<std::size_t>(group.rank())], "rank"));
        else
            check(MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    });
    entries.push_back({words.value(), made});
    return made;
}

}  // namespace datamover::mpi

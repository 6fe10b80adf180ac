// SPDX-License-Identifier: BSD-3-Clause
// Cache of bound movers for repeated calls.
#include "mover_cache.hpp"

#include <algorithm>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "geometry/make_error.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/collectives.hpp"
#include "mpi/communicators.hpp"
#include "mpi/process_group.hpp"

namespace datamover {
namespace {

std::mutex limit_mutex;
CacheLimit limit_in_force;

CacheLimit current_limit() {
    const std::lock_guard lock(limit_mutex);
    return limit_in_force;
}

struct Entry {
    std::vector<std::int64_t> key;
    Mover mover;
    std::int64_t buffer_bytes;  ///< the most on any process
};

/// The movers of one communicator, the last used first: on all processes in the same order, since
/// every decision is one that they agree on.
struct MoverCache {
    std::list<Entry> entries;
};

std::list<Entry>& entries_of(MPI_Comm comm) {
    using Cached = mpi::Attribute<MoverCache>;
    if (MoverCache* const found = Cached::find(comm)) return found->entries;
    return Cached::keep(comm, std::make_unique<MoverCache>()).entries;
}

/// The first entry whose key is this on all processes. Where the first is the same one on all of
/// them, as in a program that repeats its calls, one number of each says so. Collective.
std::list<Entry>::iterator find(std::list<Entry>& entries, const mpi::ProcessGroup& group,
                                const std::vector<std::int64_t>& key) {
    const auto fits = [&](const Entry& e) { return e.key == key && !e.mover.in_flight(); };
    const auto first = std::ranges::find_if(entries, fits);
    if (mpi::all_equal(group, static_cast<std::uint32_t>(std::distance(entries.begin(), first))))
        return first;
    std::vector<std::int64_t> differs(most_cached_movers, 1);
    std::size_t at = 0;
    for (const Entry& e : entries) differs[at++] = !fits(e);
    differs = group.maximum(std::move(differs));
    const auto agreed = std::ranges::find(differs, 0);
    return agreed == differs.end() ? entries.end()
                                   : std::next(entries.begin(), agreed - differs.begin());
}

/// The last used is kept whatever its size: a program that repeats one large copy has it again.
void shrink(std::list<Entry>& entries, const CacheLimit& limit) {
    std::int64_t bytes = 0, kept = 0;
    const auto first_dropped = std::ranges::find_if(entries, [&](const Entry& e) {
        bytes += e.buffer_bytes;
        const bool fits = kept < limit.movers && (kept == 0 || bytes <= limit.buffer_bytes);
        ++kept;
        return !fits;
    });
    entries.erase(first_dropped, entries.end());
}

}  // namespace

void set_cache_limit(const CacheLimit& limit) {
    if (limit.movers < 0 || limit.movers > most_cached_movers || limit.buffer_bytes < 0)
        throw make_error(ErrorCode::out_of_range, "the limit of ", limit.movers, " movers and ",
                         limit.buffer_bytes, " bytes; it is 0 to ", most_cached_movers,
                         " movers and at least 0 bytes");
    const std::lock_guard lock(limit_mutex);
    limit_in_force = limit;
}

Mover cached_mover(MPI_Comm comm, const std::vector<std::int64_t>& key,
                   const std::function<Mover()>& bind) {
    // The group first: it refuses communicators that nothing can be kept with.
    const auto group = mpi::ProcessGroup::of(comm);
    std::list<Entry>& entries = entries_of(comm);
    const auto found = find(entries, *group, key);
    if (found != entries.end()) {
        entries.splice(entries.begin(), entries, found);
        return entries.front().mover;
    }
    Mover mover = bind();
    const std::int64_t buffer_bytes = group->maximum({mover.extra_bytes()})[0];
    entries.push_front({key, mover, buffer_bytes});
    shrink(entries, current_limit());
    return mover;
}

void drop_cached_movers(MPI_Comm comm) {
    mpi::check_usable(comm);
    entries_of(comm).clear();
}

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// Message tags of a group: ranges that no two of its movers have at the same time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace datamover::mpi {

class ProcessGroup;

/// Tags that are in use until the last reference goes, which any thread may drop. Points to the
/// first of them.
using ClaimedTags = std::shared_ptr<const int>;

/// The first tag of a mover.
inline constexpr int first_mover_tag = 1;

/// The tags in use on this process. They are handed out in turn, from first_mover_tag to the
/// largest of MPI and then from the first again.
class MessageTags : public std::enable_shared_from_this<MessageTags> {
public:
    explicit MessageTags(int largest) : all_(largest - first_mover_tag + 1) {}

    /// The first of `count` tags that follow each other, which no process has in use. Collective;
    /// local until all tags have been handed out once, then a reduction or more. Throws, on all
    /// processes, unsupported if not so many are free.
    int next(const ProcessGroup& group, int count);
    /// Puts the tags that `next` gave in use on this process. Local. Throws bad_alloc.
    ClaimedTags claim(int first, int count);

private:
    std::int64_t free_from(std::int64_t place, int count) const;
    std::int64_t first_tag(std::int64_t place) const { return first_mover_tag + place % all_; }

    const std::int64_t all_;  ///< how many tags there are
    /// Counts on from one turn to the next, the same on all processes.
    std::int64_t next_place_ = 0;
    mutable std::mutex mutex_;
    std::map<std::int64_t, std::int64_t> in_use_;  ///< first tag, and the one after the last
};

/// Both for a group. Collective.
ClaimedTags claim_tags(const ProcessGroup& group, int count);

}  // namespace datamover::mpi

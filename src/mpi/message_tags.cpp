// SPDX-License-Identifier: BSD-3-Clause
// Message tags of a group: ranges that no two of its movers have at the same time.
//
// Processes drop their movers at different times. So in the first turn, in which all tags are free,
// each process counts for itself; later it proposes the next place that is free here, and all go on
// from the largest proposal until everyone proposes the same.
#include "message_tags.hpp"

#include <iterator>

#include "geometry/make_error.hpp"
#include "process_group.hpp"

namespace datamover::mpi {

static_assert(FailureNotice::tag < first_mover_tag);

/// The first place from `place` on whose tags are free here; a place more than a turn away if there
/// is none.
std::int64_t MessageTags::free_from(std::int64_t place, int count) const {
    const std::lock_guard lock(mutex_);
    for (const std::int64_t last = place + all_; place <= last;) {
        const std::int64_t first = first_tag(place), end = first + count;
        const auto after = in_use_.lower_bound(end);
        if (end > first_mover_tag + all_)
            place += first_mover_tag + all_ - first;  // to the next turn
        else if (after != in_use_.begin() && std::prev(after)->second > first)
            place += std::prev(after)->second - first;
        else
            break;
    }
    return place;
}

int MessageTags::next(const ProcessGroup& group, int count) {
    std::int64_t place = free_from(next_place_, count);
    bool agreed = place + count <= all_;  // in the first turn
    while (!agreed) {
        const auto proposed = group.maximum({place, -place});
        place = proposed[0];
        agreed = place == -proposed[1];
        if (place > next_place_ + all_)
            throw make_error(ErrorCode::unsupported, "the movers of a communicator use its ", all_,
                             " message tags (MPI_TAG_UB), and one more needs ", count,
                             "; free movers that are no longer used, or make the mover on a "
                             "duplicate of the communicator");
        if (!agreed) place = free_from(place, count);
    }
    next_place_ = place + count;
    return static_cast<int>(first_tag(place));
}

ClaimedTags MessageTags::claim(int first, int count) {
    auto tag = std::make_unique<const int>(first);
    {
        const std::lock_guard lock(mutex_);
        in_use_.emplace(first, first + count);
    }
    return {tag.release(), [all = shared_from_this()](const int* claimed) {
                const std::lock_guard released(all->mutex_);
                all->in_use_.erase(*claimed);
                delete claimed;
            }};
}

ClaimedTags claim_tags(const ProcessGroup& group, int count) {
    const int first = group.tags().next(group, count);
    return notifying_failure(group, [&] { return group.tags().claim(first, count); });
}

}  // namespace datamover::mpi

// SPDX-License-Identifier: BSD-3-Clause
// The alarm: a process makes the others stop independent work.
#pragma once

#include "message_tags.hpp"
#include "process_group.hpp"

namespace datamover::mpi {

/// An empty message to all others of a group, with a tag of its own. Unlike a failure of the group
/// it leaves this usable. Destroyed without settle(), what was sent stays under way: for who leaves
/// the group anyway.
class Alarm {
public:
    /// Collective, like a mover's.
    explicit Alarm(ProcessGroupPtr group);

    /// Tells all others, at the first call. Never waits.
    void ring();
    /// Whether another process has rung. Throws peer_failed where one has left. Local.
    bool rings() const;
    /// Takes in what was sent. Collective, when all have stopped; waits as movers do.
    void settle();

private:
    void send(int rank) const;

    ProcessGroupPtr group_;
    ClaimedTags tag_;
    bool has_rung_ = false;
};

}  // namespace datamover::mpi

// SPDX-License-Identifier: BSD-3-Clause
// How does a mover come to know its peers, and which transport carries each?
#pragma once

#include <memory>
#include <vector>

#include "datamover/mover.hpp"
#include "transport/transport.hpp"

namespace datamover {

/// A plan, and what this process sends and receives under it.
struct ProcessPlan {
    MotionPlan plan;
    std::vector<PeerPart> outgoing, incoming;
    bool check = false;  ///< whether any process asked to have each binding checked
};

/// Works out this process's part of a plan. Collective; throws the same error on all processes.
ProcessPlan plan_for_process(const mpi::ProcessGroup& group, const MotionPlan& plan,
                             const MoverOptions& options);

/// Why a pair is carried as it is.
struct LegReason {
    std::int64_t peer = 0;
    bool sends = false;
    std::string why;
};

/// What binding yields: the transports, ready to run, and what one round moves.
struct BoundTransports {
    std::vector<std::unique_ptr<transport::Transport>> transports;
    MoverCounters per_round;
    std::vector<LegReason> reasons;
    memory::AllocationPtr control;  ///< where the peers of this node signal

    /// How each pair is carried, and why.
    std::vector<MoverLeg> legs() const;
};

/// Validates, exchanges what peers must know of each other, chooses and binds transports.
/// Collective; throws the same error on all processes.
BoundTransports bind_transports(const mpi::ProcessGroupPtr& group, const ProcessPlan& plan,
                                ArrayPart source, ArrayPart destination,
                                const MoverOptions& options);

}  // namespace datamover

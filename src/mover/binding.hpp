// SPDX-License-Identifier: BSD-3-Clause
// Binding: finds a mover's peers and the transport of each pair.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "datamover/mover.hpp"
#include "transport/transport.hpp"

namespace datamover {

/// What this process sends and receives under one plan.
struct PlannedParts {
    MotionPlan plan;
    std::vector<PeerPart> outgoing, incoming;
    bool in_place = false;  ///< the parts are without what would go to itself
};

/// One plan between two arrays; several motions may share a plan.
struct Motion {
    std::size_t plan = 0;  ///< number among the plans
    PerSide<ArrayPart> array;
    std::complex<double> alpha = 1;  ///< factor of received elements, times that of the options

    MoverOptions options(MoverOptions of_mover) const {
        of_mover.alpha *= alpha;
        return of_mover;
    }
};

/// Whether two arrays have the same elements in the same memory.
bool is_same(const ArrayPart& a, const ArrayPart& b);
/// The lowest byte of a block, from the array's base, and one past the highest; equal if it has no
/// elements.
std::pair<std::int64_t, std::int64_t> ends_of(const BlockMemory& block, std::int64_t elem_bytes);

/// All that a mover moves in one phase of a round; most have one.
struct Moves {
    std::vector<PlannedParts> plans;
    std::vector<Motion> motions;
    std::int64_t phases = 1;  ///< of the mover, of which this is one

    const PlannedParts& parts_of(std::size_t motion) const { return plans[motions[motion].plan]; }
};

/// What binding yields: the transports, ready to run, and what one round moves.
struct Binding {
    std::shared_ptr<const int> tags;  ///< of its messages; given back after the transports
    /// Memory that peers of this node may touch: signal lines, slots, arrays; freed after
    /// transports.
    std::vector<std::shared_ptr<const void>> memory;
    std::vector<std::unique_ptr<transport::Transport>> transports;
    std::vector<char> complete;  ///< per transport, in this round
    bool sends_messages = false;
    bool remembered = false;  ///< the transports were measured before
    MoverCounters per_round;
    std::byte* signals = nullptr;  ///< of this, the lines of this process
};

/// How moves are to be bound: the options as they were given, and what follows from them.
struct BindRequest {
    explicit BindRequest(const MoverOptions& given) : options(given), transports(given.transport) {}

    MoverOptions options;
    std::string transports;         ///< names, as for choose_transport
    std::string why = "asked for";  ///< why these
    bool uses_memory = false;       ///< "auto" may stand for what was the fastest before
};

/// Validates, works out parts where `moves` has none yet, agrees, exchanges what peers must know of
/// each other, chooses and binds transports. `mine` is an error that this process has already: it
/// then only takes part in the agreement. Collective; throws the same error on all processes.
Binding bind_moves(const mpi::ProcessGroupPtr& group, Moves& moves, const BindRequest& request,
                   const std::optional<Error>& mine = {});

// Checks when a mover is bound: arguments, what processes passed, bytes that are written twice.

/// What has to be the same on all processes, as one number: plans and how many arrays and phases
/// there are; of these and of options. Local; the plans' own digests are worked out once per plan.
std::int64_t digest_of(const Moves& moves);
std::int64_t digest_of(const Moves& moves, const MoverOptions& options);

/// Throws mismatch on all processes, naming the first one that passed another option or plan than
/// process 0, and both values. Collective.
[[noreturn]] void throw_difference(const mpi::ProcessGroup& group, const Moves& moves,
                                   const MoverOptions& options);

/// Throws invalid_argument where this process reads what it writes, as far as little time decides
/// it, naming process, blocks and regions. Local.
void check_overlaps(const Moves& moves, std::int64_t rank);

/// Verifies that what is sent is what is expected, for every pair, that no element is written twice
/// and that none is read that is written. Throws mismatch, invalid_argument or out_of_range on all
/// processes, naming process, blocks and regions. Collective; memory O(processes).
void check_bound(const mpi::ProcessGroup& group, const Moves& moves, const MoverOptions& options);

/// Throws what is wrong with a process's arrays and with what is said of their moves: mismatch,
/// wrong_type, invalid_argument, invalid_state. Local.
void check_arguments(const Moves& moves, const mpi::ProcessGroup& group,
                     const MoverOptions& options);

/// Throws wrong_type or invalid_argument where elements of one type do not become those of the
/// other: bytes can be moved between equal elements of any type; all else is arithmetic on numbers.
/// Local.
void check_types(const ArrayPart& source, const ArrayPart& destination,
                 const MoverOptions& options);

}  // namespace datamover

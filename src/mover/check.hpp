// SPDX-License-Identifier: BSD-3-Clause
// Checks when a mover is bound: arguments, what processes passed, bytes that are written twice.
#pragma once

#include "binding.hpp"

namespace datamover {

/// What has to be the same on all processes, as one number each. Local; the plans' own digests are
/// worked out once per plan.
std::int64_t digest_of(const Moves& moves);
std::int64_t digest_of(const MoverOptions& options);

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

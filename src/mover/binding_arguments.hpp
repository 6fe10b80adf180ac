// SPDX-License-Identifier: BSD-3-Clause
// Checks of the arrays passed to a mover. Each process looks at its own.
#pragma once

#include "binding.hpp"

namespace datamover {

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

// SPDX-License-Identifier: BSD-3-Clause
// Copying a section of a ScaLAPACK matrix from the arguments of all processes.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "matrix_arguments.hpp"

namespace datamover {

/// Finds the mover of an earlier call with the same `key` (all that this process knows of the call)
/// on `comm`, or binds one, moves, and returns it. `arguments` is called on all processes or none;
/// where it throws on one, all throw. `wrong_argument` is set to the position of the argument that
/// is at fault (see WrongArgument), where that is known, on all processes. Collective. Throws as
/// copy_matrix does.
Mover copy_section(MPI_Comm comm, const std::vector<std::int64_t>& key,
                   const std::function<CopyArguments()>& arguments, int& wrong_argument);

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// The communicator of a BLACS context, also if the context is created again.
#pragma once

#include <mpi.h>

namespace datamover {

/// A communicator of the same processes in the same order, the same for all contexts of which that
/// holds, so that what the library keeps with it is found again by a program that makes a context
/// per step. It lives until MPI ends. Collective at the first call for a context, then local.
/// Throws mpi.
MPI_Comm context_communicator(MPI_Comm of_context);

/// Drops the movers that are kept with these communicators. Local. Returns a code of the C face.
int drop_all_caches();

}  // namespace datamover

// SPDX-License-Identifier: BSD-3-Clause
// What the files of the module datamover._mover share.
#pragma once

#include <mpi.h>

#include "common.hpp"

namespace datamover::bindings {

Binding bind_arrays, bind_groups, bind_movers, bind_migration, bind_index_lists;

/// The communicator whose handle lies at an address (mpi4py's MPI._addressof).
inline MPI_Comm comm_at(std::uintptr_t address) {
    return *reinterpret_cast<MPI_Comm*>(address);
}

}  // namespace datamover::bindings

// SPDX-License-Identifier: BSD-3-Clause
// Declarations shared by the files of the module datamover._mover.
#pragma once

#include <mpi.h>
#include <nanobind/nanobind.h>

#include <cstdint>

namespace datamover::bindings {

void bind_arrays(nanobind::module_& m);
void bind_groups(nanobind::module_& m);
void bind_movers(nanobind::module_& m);
void bind_migration(nanobind::module_& m);
void bind_index_lists(nanobind::module_& m);

/// The communicator whose handle lies at an address (mpi4py's MPI._addressof).
inline MPI_Comm comm_at(std::uintptr_t address) {
    return *reinterpret_cast<MPI_Comm*>(address);
}

}  // namespace datamover::bindings

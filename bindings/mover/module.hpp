// SPDX-License-Identifier: BSD-3-Clause
// Declarations shared by the files of the module datamover._mover.
#pragma once

#include <mpi.h>
#include <nanobind/nanobind.h>

#include <cstdint>

namespace datamover::bindings {

namespace nb = nanobind;

void bind_arrays(nb::module_& m);
void bind_groups(nb::module_& m);
void bind_movers(nb::module_& m);
void bind_migration(nb::module_& m);
void bind_index_lists(nb::module_& m);

/// The communicator whose handle lies at an address (mpi4py's MPI._addressof).
inline MPI_Comm comm_at(std::uintptr_t address) {
    return *reinterpret_cast<MPI_Comm*>(address);
}

}  // namespace datamover::bindings

// SPDX-License-Identifier: BSD-3-Clause
// Numbers of processes as arguments of layouts.
#include "layout_members.hpp"

namespace datamover::bindings {

std::int64_t processes_of(nb::handle nprocs, nb::handle comm) {
    if (comm.is_none()) {
        if (nprocs.is_none())
            throw Error(ErrorCode::wrong_type,
                        "nprocs= is missing: pass the number of processes, or a communicator as "
                        "comm=");
        return integer_of(nprocs, "nprocs");
    }
    if (!nprocs.is_none())
        throw Error(ErrorCode::invalid_argument,
                    "nprocs= and comm= are both given; pass only one of them");
    if (!nb::hasattr(comm, "Get_size")) refuse_type(comm, "comm", "a communicator of mpi4py");
    const nb::dict modules = nb::module_::import_("sys").attr("modules");
    if (modules.contains("mpi4py.MPI") &&
        nb::cast<bool>(modules["mpi4py.MPI"].attr("Is_finalized")()))
        throw Error(ErrorCode::mpi, "comm cannot be used: MPI has ended");
    try {
        return nb::cast<std::int64_t>(comm.attr("Get_size")());
    } catch (const nb::cast_error&) {
        refuse_type(comm, "comm", "a communicator of mpi4py");
    } catch (const nb::python_error& e) {
        if (!e.matches(PyExc_Exception)) throw;  // an interrupt
        throw Error(ErrorCode::invalid_argument,
                    "comm has no processes: it is MPI.COMM_NULL, or was freed");
    }
}

}  // namespace datamover::bindings

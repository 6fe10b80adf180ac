// SPDX-License-Identifier: BSD-3-Clause
// Which parts of the library that need MPI does Python see?
#include "module.hpp"

#include <mpi.h>
#include <nanobind/stl/string.h>

#include <string>

#include "errors.hpp"

namespace nb = nanobind;

NB_MODULE(_mover, m) {
    nb::set_leak_warnings(false);  // plans kept to the end of a program are no fault to print
    nb::module_::import_("datamover._plan");
    datamover::bindings::register_error_translator();
    m.doc() = "Arrays and movers: the rooms of datamover that need MPI.";
    m.def(
        "mpi_library_version",
        [] {
            char text[MPI_MAX_LIBRARY_VERSION_STRING];
            int length = 0;
            MPI_Get_library_version(text, &length);
            return std::string(text, static_cast<std::size_t>(length));
        },
        "The MPI library that this module is linked with, in its own words. Local.");
    m.attr("comm_handle_bytes") = sizeof(MPI_Comm);
    datamover::bindings::bind_arrays(m);
    datamover::bindings::bind_movers(m);
    datamover::bindings::bind_distribution(m);
    datamover::bindings::bind_datatypes(m);
}

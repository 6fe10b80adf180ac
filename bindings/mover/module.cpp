// SPDX-License-Identifier: BSD-3-Clause
// The module datamover._mover: everything that needs MPI.
#include "module.hpp"

#include "call_errors.hpp"
#include "mpi/waiting.hpp"

namespace nb = nanobind;

namespace {

/// The exception that the signal handler raised is set already.
void translate_interrupted(const std::exception_ptr& error, void*) {
    try {
        std::rethrow_exception(error);
    } catch (const datamover::mpi::Interrupted&) {
        if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
}

}  // namespace

NB_MODULE(DATAMOVER_MODULE, m) {
    nb::set_leak_warnings(false);  // plans kept to the end of a program are no fault to print
    nb::module_::import_("datamover._plan");
    datamover::bindings::register_error_translator();
    nb::register_exception_translator(translate_interrupted);
    datamover::mpi::set_interrupt_check(datamover::bindings::signal_handler_raised);
    m.doc() = "Arrays and movers: the rooms of datamover that need MPI.";
    // The MPI library that this module is linked with, in its own words. Local.
    m.def("mpi_library_version", [] {
        char text[MPI_MAX_LIBRARY_VERSION_STRING];
        int length = 0;
        MPI_Get_library_version(text, &length);
        return std::string(text, static_cast<std::size_t>(length));
    });
    m.attr("comm_handle_bytes") = sizeof(MPI_Comm);
    using namespace datamover::bindings;
    for (Binding* bind : {bind_arrays, bind_groups, bind_movers, bind_migration, bind_index_lists})
        bind(m);
    say_call_errors(m);
}

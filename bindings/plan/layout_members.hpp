// SPDX-License-Identifier: BSD-3-Clause
// What the bindings of all layouts share: members, and numbers of processes as arguments.
#pragma once

#include "datamover/layout.hpp"
#include "module.hpp"

namespace datamover::bindings {

/// The number of processes that is given, or that a communicator of mpi4py has; one of the two.
inline std::int64_t processes_of(nb::handle nprocs, nb::handle comm) {
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

/// A method of all layouts, for layouts of a kind.
template <class Kind, class Result, class... Argument>
auto of_layout(Result (Layout::*method)(Argument...) const) {
    return [method](const Kind& layout, Argument... arguments) {
        return (Layout(layout).*method)(arguments...);
    };
}

/// The rank of each block.
template <class Kind>
NumpyArray<std::int64_t> owners_of(const Kind& layout) {
    std::vector<std::int64_t> owners(static_cast<std::size_t>(layout.num_blocks()));
    for (std::size_t b = 0; b < owners.size(); ++b)
        owners[b] = layout.owner(static_cast<std::int64_t>(b));
    return array_of(std::move(owners));
}

template <class Kind>
void add_owners(Class<Kind>& c, const char* name) {
    c.def_prop_ro(name, &owners_of<Kind>, nb::rv_policy::move, nb::rv_policy::reference);
}

template <class Kind>
void add_common(Class<Kind>& c) {
    if constexpr (requires(const Kind& layout) { layout.shape(); })
        /// Extents of the array.
        c.def_prop_ro("shape", &Kind::shape);
    /// Number of dimensions.
    c.def_prop_ro("dims", of_layout<Kind>(&Layout::dims))
        /// Number of processes.
        .def_prop_ro("nprocs", of_layout<Kind>(&Layout::nprocs))
        /// Number of blocks: the units of local storage, each with one owner.
        .def_prop_ro("num_blocks", of_layout<Kind>(&Layout::num_blocks))
        /// The index space: all of the shape, or a floor plan's bounding box.
        .def_prop_ro("domain", of_layout<Kind>(&Layout::domain))
        /// The rank that holds a block. Raises OutOfRange.
        .def("owner", of_layout<Kind>(&Layout::owner), "block"_a)
        /// The blocks of a rank, ascending. Raises OutOfRange.
        .def("blocks_of", of_layout<Kind>(&Layout::blocks_of), "rank"_a)
        /// The shape of a block's local array. Raises OutOfRange.
        .def("block_extents", of_layout<Kind>(&Layout::block_extents), "block"_a)
        /// Number of elements that a rank holds. Raises OutOfRange.
        .def("local_elems", of_layout<Kind>(&Layout::local_elems), "rank"_a)
        .def(nb::self == nb::self)
        .def("__hash__", &Kind::digest);
}

}  // namespace datamover::bindings

// SPDX-License-Identifier: BSD-3-Clause
// Python bindings: a relation as an MPI datatype.
#include <nanobind/stl/string.h>

#include "casters.hpp"
#include "datamover/advanced/relation_datatype.hpp"
#include "module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace datamover::bindings {

/// Handles lie at addresses (mpi4py's MPI._addressof): that of the element's type, 0 for bytes, and
/// that of the handle to be set.
void bind_datatypes(nb::module_& m) {
    m.def(
        "make_relation_datatype",
        [](const AddressRelation& relation, const std::string& side, std::uintptr_t element,
           std::uintptr_t result) {
            const MPI_Datatype elem =
                element == 0 ? MPI_DATATYPE_NULL : *reinterpret_cast<MPI_Datatype*>(element);
            *reinterpret_cast<MPI_Datatype*>(result) =
                relation_datatype(relation, side_of(side), elem);
        },
        "relation"_a, "side"_a, "element"_a, "result"_a,
        "Set a datatype's handle to one side of a relation. Local.");
}

}  // namespace datamover::bindings

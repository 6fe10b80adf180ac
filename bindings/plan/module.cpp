// SPDX-License-Identifier: BSD-3-Clause
// The module datamover._plan: everything that needs no MPI. The rooms that need no MPI, a few
// functions for each.
#include "call_errors.hpp"
#include "errors.hpp"
#include "relation/copy_loops.hpp"

namespace datamover::bindings {

void bind_geometry(nb::module_& m);
void bind_block_cyclic(nb::module_& m);
void bind_index_list(nb::module_& m);
void bind_floor_plan(nb::module_& m);
void bind_flat_cyclic(nb::module_& m);
void bind_memory_layout(nb::module_& m);
void bind_plan_terms(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_relation(nb::module_& m);
void bind_relation_cache(nb::module_& m);
void bind_recompute_model(nb::module_& m);
void bind_explain(nb::module_& m);
void bind_stream(nb::module_& m);

}  // namespace datamover::bindings

NB_MODULE(DATAMOVER_MODULE, m) {
    using namespace datamover::bindings;
    nb::set_leak_warnings(false);  // plans kept to the end of a program are no fault to print
    m.doc() = "Geometry, layouts, plans and relations of datamover; needs no MPI.";
    m.attr("__version__") = DATAMOVER_VERSION;
    m.attr("instruction_set") = datamover::copy_loops().level;
    register_error_translator();
    bind_geometry(m);
    bind_block_cyclic(m);
    bind_index_list(m);
    bind_floor_plan(m);
    bind_flat_cyclic(m);
    bind_memory_layout(m);
    bind_plan_terms(m);
    bind_plan(m);
    bind_relation(m);
    bind_relation_cache(m);
    bind_recompute_model(m);
    bind_explain(m);
    bind_stream(m);
    say_call_errors(m);
}

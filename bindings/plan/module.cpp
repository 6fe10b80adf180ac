// SPDX-License-Identifier: BSD-3-Clause
// The module datamover._plan: everything that needs no MPI.
#include "module.hpp"

#include "call_errors.hpp"
#include "relation/copy_loops.hpp"

NB_MODULE(DATAMOVER_MODULE, m) {
    using namespace datamover::bindings;
    nb::set_leak_warnings(false);  // plans kept to the end of a program are no fault to print
    m.doc() = "Geometry, layouts, plans and relations of datamover; needs no MPI.";
    m.attr("__version__") = DATAMOVER_VERSION;
    m.attr("instruction_set") = datamover::copy_loops().level;
    register_error_translator();
    // A class before the functions that return it.
    for (Binding* bind :
         {bind_geometry, bind_block_cyclic, bind_index_list, bind_floor_plan, bind_flat_cyclic,
          bind_memory_layout, bind_plan_terms, bind_plan, bind_relation, bind_relation_cache,
          bind_recompute_model, bind_explain, bind_stream})
        bind(m);
    say_call_errors(m);
}

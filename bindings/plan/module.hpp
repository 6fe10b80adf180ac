// SPDX-License-Identifier: BSD-3-Clause
// What the files of the module datamover._plan share.
#pragma once

#include "class_members.hpp"
#include "common.hpp"

namespace datamover::bindings {

Binding bind_geometry, bind_block_cyclic, bind_index_list, bind_floor_plan, bind_flat_cyclic,
    bind_memory_layout, bind_plan_terms, bind_plan, bind_relation, bind_relation_cache,
    bind_recompute_model, bind_explain, bind_stream;

}  // namespace datamover::bindings

// SPDX-License-Identifier: BSD-3-Clause
// What the files of the module datamover._plan share.
#pragma once

#include "class_members.hpp"
#include "common.hpp"

namespace datamover::bindings {

Binding bind_geometry, bind_block_cyclic, bind_index_list, bind_floor_plan, bind_flat_cyclic,
    bind_memory_layout, bind_plan_terms, bind_plan, bind_relation, bind_relation_cache,
    bind_recompute_model, bind_explain, bind_stream;

// The parts of the binding of AddressRelation: a file for each.

/// Throws wrong_type unless the array's elements are as wide as the relation's; bare bytes fit all.
void require_elems(const ArrayMemory& memory, std::int64_t elem_bytes);

/// The methods that move elements, and the copy of whole arrays.
void bind_relation_copies(nb::module_& m, Class<AddressRelation>& c);

/// The methods that hand a relation on: as bytes, as pieces of memory, as messages.
void bind_relation_messages(Class<AddressRelation>& c);

}  // namespace datamover::bindings

// SPDX-License-Identifier: BSD-3-Clause
// The parts of the binding of AddressRelation: a file for each.
#pragma once

#include "module.hpp"

namespace datamover::bindings {

/// Throws wrong_type unless the array's elements are as wide as the relation's; bare bytes fit all.
void require_elems(const ArrayMemory& memory, std::int64_t elem_bytes);

/// The methods that move elements, and the copy of whole arrays.
void bind_relation_copies(nb::module_& m, Class<AddressRelation>& c);

/// The methods that hand a relation on: as bytes, as pieces of memory, as messages.
void bind_relation_messages(Class<AddressRelation>& c);

}  // namespace datamover::bindings

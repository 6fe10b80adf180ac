// SPDX-License-Identifier: BSD-3-Clause
// What do the files that bind AddressRelation share?
#pragma once

#include <nanobind/nanobind.h>

#include "array_memory.hpp"
#include "datamover/address_relation.hpp"

namespace datamover::bindings {

/// Throws out_of_range unless all addresses lie in the array.
void require_inside(const ArrayMemory& memory, const AddressBounds& bounds);

/// The methods that move elements, and the copy of whole arrays.
void bind_applying(nanobind::module_& m, nanobind::class_<AddressRelation>& c);

}  // namespace datamover::bindings

// SPDX-License-Identifier: BSD-3-Clause
// Declarations shared by the files that bind AddressRelation.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

#include "array_memory.hpp"
#include "datamover/advanced/address_relation.hpp"

namespace datamover::bindings {

/// The range of addresses of an array's elements.
inline AddressBounds bounds_of(const ArrayMemory& memory) {
    return {memory.begin_bytes(), memory.end_bytes()};
}

/// Throws wrong_type unless the array's elements are as wide as the relation's; bare bytes fit all.
void require_elems(const ArrayMemory& memory, std::int64_t elem_bytes);

/// The bytes of a buffer without gaps. Throws wrong_type on any other; `what` names it.
std::span<const std::uint8_t> bytes_of(const ArrayMemory& memory, const char* what);

/// The methods that move elements, and the copy of whole arrays.
void bind_applying(nanobind::module_& m, nanobind::class_<AddressRelation>& c);
/// The methods that hand a relation on: as bytes, as pieces of memory, as messages.
void bind_passing_on(nanobind::class_<AddressRelation>& c);

}  // namespace datamover::bindings

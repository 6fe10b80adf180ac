// SPDX-License-Identifier: BSD-3-Clause
// Datatypes of a relation in the widest words that fit its elements.
#pragma once

#include <cstddef>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "mpi/byte_message.hpp"

namespace datamover::transport {

/// As relation_datatype, of the longest words that elements at these places of `base` consist of:
/// MPICH copies single bytes where it is told bytes. Two sides may have words of different lengths;
/// between equal machines MPI compares numbers of bytes alone. In parts that lie at displacements
/// from `base`, for a sequence of them and others.
std::vector<mpi::PlacedDatatype> relation_in_words(const AddressRelation& relation, Side side,
                                                   const std::byte* base);

}  // namespace datamover::transport

// SPDX-License-Identifier: BSD-3-Clause
// One side of a relation as a derived MPI datatype.
#pragma once

#include <mpi.h>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// Make a committed MPI datatype of the elements of one side of a relation, in its order, with
/// displacements relative to the base of that side's memory. Send one of it from the base, or
/// receive one into it. Its type map is that of the message, so that the two sides match each other
/// and a contiguous buffer. `element` is the type of one element; MPI_DATATYPE_NULL stands for the
/// same number of bytes as the relation's elements have. The caller frees the type with
/// MPI_Type_free. Throws wrong_type if `element` has another size than the relation's elements on
/// that side, mpi if MPI cannot make the type. Local. Cost: products become nested vectors, in size
/// and time independent of the number of elements; all others list their contiguous pieces. Source:
/// the paper on compact address relations, section on discussion (a relation as an interface).
MPI_Datatype relation_datatype(const AddressRelation& relation, Side side,
                               MPI_Datatype element = MPI_DATATYPE_NULL);

}  // namespace datamover

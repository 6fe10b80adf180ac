// SPDX-License-Identifier: BSD-3-Clause
// One side of a relation as a derived MPI datatype.
#pragma once

#include <mpi.h>

#include "datamover/address_relation.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// The elements of one side of a relation, in its order, as a committed MPI datatype whose
/// displacements count from the base of that side's memory. Send one of it from the base, or
/// receive one into it; its type map is that of the message, so that the two sides fit each other
/// and a contiguous buffer. Products become nested vectors, in size and time independent of the
/// number of elements; all else lists its contiguous pieces.
/// `element` is the type of one element; MPI_DATATYPE_NULL stands for as many bytes as the
/// relation's elements have. The caller frees the type with MPI_Type_free. Local.
/// Throws wrong_type when `element` is of another size than the relation's elements on that side,
/// mpi when MPI cannot make the type.
/// Source: the paper on compact address relations, section on discussion (a relation as an
/// interface).
MPI_Datatype relation_datatype(const AddressRelation& relation, Side side,
                               MPI_Datatype element = MPI_DATATYPE_NULL);

}  // namespace datamover

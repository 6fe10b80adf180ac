// SPDX-License-Identifier: BSD-3-Clause
// Who owns a derived datatype of MPI, and how is one put together of others?
#include "datatype.hpp"

#include "byte_message.hpp"
#include "checked_call.hpp"

namespace datamover::mpi {

Datatype::~Datatype() {
    if (type_ != MPI_DATATYPE_NULL && is_running()) MPI_Type_free(&type_);
}

void Datatype::commit() {
    check(MPI_Type_commit(&type_), "MPI_Type_commit");
}

Datatype sequence(const std::vector<PlacedDatatype>& parts) {
    const std::vector<int> lengths(parts.size(), 1);
    std::vector<MPI_Aint> displacements;
    std::vector<MPI_Datatype> types;
    for (const PlacedDatatype& p : parts) {
        displacements.push_back(static_cast<MPI_Aint>(p.displacement_bytes));
        types.push_back(p.type.get());
    }
    MPI_Datatype made = MPI_DATATYPE_NULL;
    check(MPI_Type_create_struct(to_int(static_cast<std::int64_t>(parts.size()), "a list"),
                                 lengths.data(), displacements.data(), types.data(), &made),
          "MPI_Type_create_struct");
    return Datatype(made);
}

std::int64_t displacement_of(const void* memory) {
    MPI_Aint displacement = 0;
    check(MPI_Get_address(memory, &displacement), "MPI_Get_address");
    return displacement;
}

}  // namespace datamover::mpi

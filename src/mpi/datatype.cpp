// SPDX-License-Identifier: BSD-3-Clause
// Ownership of derived MPI datatypes, and sequences of them.
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

Datatype sequence(std::vector<PlacedDatatype> parts) {
    if (parts.size() == 1 && parts.front().displacement_bytes == 0)
        return std::move(parts.front().type);
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

Datatype bytes_at(const void* memory, std::int64_t bytes) {
    const ByteMessage message(bytes);
    const int count = message.count();
    const auto displacement = static_cast<MPI_Aint>(displacement_of(memory));
    MPI_Datatype made = MPI_DATATYPE_NULL;
    check(MPI_Type_create_hindexed(1, &count, &displacement, message.type(), &made),
          "MPI_Type_create_hindexed");
    Datatype type(made);
    type.commit();
    return type;
}

std::int64_t displacement_of(const void* memory) {
    MPI_Aint displacement = 0;
    check(MPI_Get_address(memory, &displacement), "MPI_Get_address");
    return displacement;
}

}  // namespace datamover::mpi

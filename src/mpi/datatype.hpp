// SPDX-License-Identifier: BSD-3-Clause
// Ownership of derived MPI datatypes, and sequences of them.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace datamover::mpi {

/// A derived datatype, freed with this object.
class Datatype {
public:
    Datatype() = default;
    explicit Datatype(MPI_Datatype type) : type_(type) {}
    Datatype(Datatype&& other) noexcept : type_(other.release()) {}
    Datatype& operator=(Datatype&& other) noexcept {
        std::swap(type_, other.type_);
        return *this;
    }
    ~Datatype();

    MPI_Datatype get() const { return type_; }
    MPI_Datatype release() { return std::exchange(type_, MPI_DATATYPE_NULL); }
    /// Before it is used for messages.
    void commit();

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

struct PlacedDatatype {
    std::int64_t displacement_bytes;
    Datatype type;
};

/// One of each, in this order.
Datatype sequence(std::vector<PlacedDatatype> parts);

/// The bytes at a place in memory, counted from MPI_BOTTOM, committed.
Datatype bytes_at(const void* memory, std::int64_t bytes);

/// The place of memory as a displacement from MPI_BOTTOM.
std::int64_t displacement_of(const void* memory);

}  // namespace datamover::mpi
